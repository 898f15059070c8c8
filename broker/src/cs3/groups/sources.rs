//! The connectors that are asked about groups of a tenant: those that can tell, and whose mapping takes the groups of `claims.groups` as they are
//! or with a constant text before them, so that a group's name here says its name there. Of any other connector, groups are known by the people
//! who are in them only.

use claims_mapping::{Mapping, TenantScope, fold};
use connectors::{ConnectorError, Found, Groups, UpstreamGroup, UserQuery};
use futures_util::future::{join_all, try_join_all};

use crate::tenancy::{Admission, Wired};

/// The claim in which connectors give groups.
const CLAIM: &str = "groups";
/// The most groups of a connector that are gone through for a search that it can not be asked.
const MOST_GONE_THROUGH: usize = 10_000;

/// What a mapping puts before the name of each group; `None` where a name here does not say the name there.
pub(crate) fn prefix_of(mapping: &Mapping) -> Option<&str> {
    mapping.groups_claim().filter(|(claim, _)| *claim == CLAIM).map(|(_, prefix)| prefix)
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) connector: &'a Wired,
    groups: &'a dyn Groups,
    prefix: &'a str,
}

/// All of them.
pub(super) struct Sources<'a>(Vec<Source<'a>>);

/// What was found, and why it may not be all.
pub(super) type Told<T> = (Vec<T>, Option<ConnectorError>);

impl<'a> Sources<'a> {
    /// Those that serve the scope's tenant.
    pub(super) fn of(admission: &'a Admission, scope: &TenantScope) -> Self {
        let serving = admission.connectors().filter(|connector| connector.serves(scope.tenant()));
        let source = |connector: &'a std::sync::Arc<Wired>| {
            Some(Source { connector, groups: connector.groups.as_deref()?, prefix: prefix_of(&connector.mapping)? })
        };
        Self(serving.filter_map(source).collect())
    }

    /// Where there is a group of this name, each with the group as it is there.
    pub(super) async fn get(&self, scope: &TenantScope, name: &str) -> Told<(Source<'a>, UpstreamGroup)> {
        let named = self.0.iter().filter_map(|source| Some((source, source.there(name)?)));
        let ask = |(source, there): (&Source<'a>, _)| {
            let source = *source;
            async move { source.groups.get(scope, there).await.map(|group| group.map(|group| (source, group))) }
        };
        let answers = join_all(named.map(ask)).await;
        let (mut known, mut trouble) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Ok(found) => known.extend(found),
                Err(error) => trouble = Some(error),
            }
        }
        (known, trouble)
    }

    /// Groups whose name holds the text, with their names here.
    pub(super) async fn search(&self, scope: &TenantScope, text: &str, limit: usize) -> Told<(String, UpstreamGroup)> {
        let ask = |source: &Source<'a>| {
            let source = *source;
            async move { source.search(scope, text, limit).await }
        };
        let answers = join_all(self.0.iter().map(ask)).await;
        let (mut found, mut trouble) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Ok(groups) => found.extend(groups),
                Err(error) => trouble = Some(error),
            }
        }
        (found, trouble)
    }

    /// Who is in a group, wherever it is known.
    ///
    /// # Errors
    /// When one of them could not tell.
    pub(super) async fn members(
        &self,
        scope: &TenantScope,
        known: &[(Source<'a>, UpstreamGroup)],
        limit: usize,
    ) -> Result<Vec<(Source<'a>, Found)>, ConnectorError> {
        let ask = |(source, group): &(Source<'a>, UpstreamGroup)| {
            let (source, name) = (*source, group.name.clone());
            async move { source.groups.members(scope, &name, limit).await.map(|found| (source, found)) }
        };
        try_join_all(known.iter().map(ask)).await
    }
}

impl Source<'_> {
    /// What a group of this name is called there.
    fn there<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(self.prefix).filter(|there| !there.is_empty())
    }

    async fn search(&self, scope: &TenantScope, text: &str, limit: usize) -> Result<Vec<(String, UpstreamGroup)>, ConnectorError> {
        let here = |group: UpstreamGroup| (format!("{}{}", self.prefix, group.name), group);
        // What is put before the names may be a part of what is searched for: then all are gone through.
        let (query, wanted) = if self.prefix.is_empty() {
            (UserQuery { text: text.to_owned(), limit }, None)
        } else {
            (UserQuery { text: String::new(), limit: MOST_GONE_THROUGH }, Some(fold(text)))
        };
        let found = self.groups.search(scope, &query).await?;
        let fits = |name: &str| wanted.as_ref().is_none_or(|wanted| fold(name).contains(wanted));
        Ok(found.groups.into_iter().map(here).filter(|(name, _)| fits(name)).collect())
    }
}
