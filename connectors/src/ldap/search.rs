//! Searches: one request, its pages, its entries. No referral is followed and no alias dereferenced.

use ldap3::{
    Ldap, LdapError, LdapResult, ResultEntry, Scope, SearchOptions,
    asn1::{PL, StructureTag, parse_tag},
    controls::{Control, ControlType, PagedResults},
};

use super::filter::Filter;

/// The most entries of one page (RFC 2696); Active Directory gives no more than 1,000.
pub(super) const PAGE: usize = 1000;

/// What to look for.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    pub(super) base: &'a str,
    pub(super) scope: Scope,
    pub(super) filter: &'a Filter,
    pub(super) attributes: &'a [String],
    /// How many entries are wanted; one more is asked for, to know whether there are more.
    pub(super) most: usize,
}

/// One attribute of an entry: its name as the server writes it, and its values.
pub(super) type Values = (String, Vec<Vec<u8>>);

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) dn: String,
    pub(super) attributes: Vec<Values>,
}

impl Entry {
    /// An attribute's values; none where it is absent.
    pub(super) fn values(&self, name: &str) -> &[Vec<u8>] {
        self.attributes.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, values)| values.as_slice()).unwrap_or_default()
    }

    /// An attribute's only value, where it has exactly one and that is text.
    pub(super) fn only(&self, name: &str) -> Option<&str> {
        match self.values(name) {
            [value] => std::str::from_utf8(value).ok(),
            _ => None,
        }
    }
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// These are all.
    Complete,
    /// There are more than were wanted.
    More,
    /// The server's own limits ended it (codes 3, 4, 11): there may be more.
    Limited,
    /// There is no such base, or it may not be seen (code 32).
    NoBase,
    /// The server refers to another one (code 10).
    Referral,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) entries: Vec<Entry>,
    pub(super) end: End,
}

/// Runs a search, page by page.
pub(super) async fn search(mut ldap: Ldap, request: &Request<'_>) -> Result<Answer, LdapError> {
    let filter = request.filter.render();
    let mut entries = Vec::new();
    let mut cookie = Vec::new();
    loop {
        let wanted = request.most.saturating_add(1).saturating_sub(entries.len());
        let size = i32::try_from(wanted.min(PAGE)).unwrap_or(i32::MAX);
        // A look-up of one entry needs no pages, and a server without pages can still answer it.
        if request.most > 1 {
            ldap.with_controls(PagedResults { size, cookie: std::mem::take(&mut cookie) });
        } else {
            ldap.with_search_options(SearchOptions::new().sizelimit(size));
        }
        let mut stream = ldap.streaming_search(request.base, request.scope, &filter, request.attributes).await?;
        let mut surplus = 0;
        while let Some(item) = stream.next().await? {
            // References to other servers come between the entries; they stay where they are.
            match entry(item) {
                Some(entry) if entries.len() < request.most => entries.push(entry),
                Some(_) => surplus += 1,
                None => {}
            }
            // A server that does not know pages would send everything.
            if surplus > PAGE {
                break;
            }
        }
        if surplus > 0 {
            return Ok(Answer { entries, end: End::More });
        }
        let result = stream.finish().await;
        let end = match result.rc {
            0 => next_page(&result).map_or(Some(End::Complete), |next| {
                cookie = next;
                None
            }),
            3 | 4 | 11 => Some(End::Limited),
            10 => Some(End::Referral),
            32 => Some(End::NoBase),
            _ => return Err(LdapError::from(result)),
        };
        if let Some(end) = end {
            return Ok(Answer { entries, end });
        }
    }
}

/// The cookie of the next page; `None` after the last. The protocol crate's own reading panics on a malformed one.
fn next_page(result: &LdapResult) -> Option<Vec<u8>> {
    let raw = result.ctrls.iter().find_map(|Control(kind, raw)| matches!(kind, Some(ControlType::PagedResults)).then_some(raw))?;
    let (_, tag) = parse_tag(raw.val.as_deref()?).ok()?;
    let cookie = children(tag)?.into_iter().nth(1)?;
    bytes(cookie).filter(|cookie| !cookie.is_empty())
}

/// An entry from its protocol form (RFC 4511, 4.5.2); `None` for anything else, and for what is malformed.
fn entry(item: ResultEntry) -> Option<Entry> {
    if item.is_ref() || item.is_intermediate() {
        return None;
    }
    let mut parts = children(item.0)?.into_iter();
    let dn = String::from_utf8(bytes(parts.next()?)?).ok()?;
    let attributes = children(parts.next()?)?.into_iter().map(attribute).collect::<Option<Vec<_>>>()?;
    Some(Entry { dn, attributes })
}

fn attribute(tag: StructureTag) -> Option<Values> {
    let mut parts = children(tag)?.into_iter();
    let name = String::from_utf8(bytes(parts.next()?)?).ok()?;
    let values = children(parts.next()?)?.into_iter().map(bytes).collect::<Option<Vec<_>>>()?;
    Some((name, values))
}

fn children(tag: StructureTag) -> Option<Vec<StructureTag>> {
    match tag.payload {
        PL::C(children) => Some(children),
        PL::P(_) => None,
    }
}

fn bytes(tag: StructureTag) -> Option<Vec<u8>> {
    match tag.payload {
        PL::P(bytes) => Some(bytes),
        PL::C(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use ldap3::asn1::TagClass;

    use super::*;

    fn leaf(text: &str) -> StructureTag {
        StructureTag { class: TagClass::Universal, id: 4, payload: PL::P(text.into()) }
    }

    fn node(id: u64, children: Vec<StructureTag>) -> StructureTag {
        StructureTag { class: TagClass::Universal, id, payload: PL::C(children) }
    }

    #[test]
    fn malformed_entries_are_left_out_and_do_not_panic() {
        let good = node(4, vec![leaf("cn=a"), node(16, vec![node(16, vec![leaf("Mail"), node(17, vec![leaf("x"), leaf("y")])])])]);
        let found = entry(ResultEntry::new(good)).unwrap();
        assert_eq!(found.values("mail").len(), 2);
        assert_eq!(found.only("mail"), None);
        assert_eq!(found.only("absent"), None);
        let not_utf8 = StructureTag { class: TagClass::Universal, id: 4, payload: PL::P(vec![0xff]) };
        for bad in [
            leaf("x"),
            node(4, vec![]),
            node(4, vec![leaf("cn=a")]),
            node(4, vec![leaf("cn=a"), leaf("b")]),
            node(4, vec![not_utf8, node(16, vec![])]),
        ] {
            assert!(entry(ResultEntry::new(bad)).is_none());
        }
        let reference = node(19, vec![leaf("ldap://elsewhere/")]);
        assert!(entry(ResultEntry::new(reference)).is_none());
    }
}
