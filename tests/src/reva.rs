//! OpenCloud as a gRPC client of the CS3 door: the tokens that it mints, and the calls that its parts make.

mod token;

use std::{net::SocketAddr, path::Path};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::{
    Request, Response, Status,
    metadata::AsciiMetadataValue,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tower::service_fn;

pub use self::token::RevaToken;
use crate::{
    broker::install_providers,
    cs3::{
        group::{
            FindGroupsRequest, GetGroupByClaimRequest, GetGroupRequest, GetMembersRequest, Group, GroupId, HasMemberRequest,
            group_api_client::GroupApiClient,
        },
        rpc::{self, Code},
        tenant::{GetTenantByClaimRequest, GetTenantRequest, Tenant, tenant_api_client::TenantApiClient},
        user::{
            Filter, FindUsersRequest, GetUserByClaimRequest, GetUserGroupsRequest, GetUserRequest, User, UserId, filter,
            user_api_client::UserApiClient,
        },
    },
    process::PATIENCE,
};

/// Why a call gave nothing.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// gRPC's own status: the call was not let in, or never came out.
    Grpc(Status),
    /// The status in an answer that is OK to gRPC.
    Cs3(Code, String),
}

impl Refusal {
    /// gRPC's status code.
    ///
    /// # Panics
    /// When it is CS3's status that refused.
    #[must_use]
    pub fn grpc(&self) -> tonic::Code {
        match self {
            Self::Grpc(status) => status.code(),
            Self::Cs3(..) => panic!("refused in CS3's status, not in gRPC's: {self:?}"),
        }
    }

    /// CS3's status code.
    ///
    /// # Panics
    /// When it is gRPC's status that refused.
    #[must_use]
    pub fn cs3(&self) -> Code {
        match self {
            Self::Cs3(code, _) => *code,
            Self::Grpc(_) => panic!("refused in gRPC's status, not in CS3's: {self:?}"),
        }
    }
}

/// What a call gave.
pub type Answered<T> = Result<T, Refusal>;

/// Someone who has signed in at OpenCloud.
#[derive(Debug, Clone)]
pub struct Session {
    /// Their token.
    pub token: String,
    /// Who OpenCloud thinks they are.
    pub user: User,
}

/// A connection to the door.
#[derive(Debug, Clone)]
pub struct Reva {
    channel: Channel,
}

impl Reva {
    /// Over TCP without TLS.
    ///
    /// # Panics
    /// When nothing listens there.
    pub async fn tcp(address: SocketAddr) -> Self {
        Self { channel: endpoint(&format!("http://{address}")).connect().await.unwrap_or_else(|error| panic!("{address}: {error:?}")) }
    }

    /// Over TCP with TLS: the server must have a certificate of this authority (PEM) for this name.
    ///
    /// # Errors
    /// When there is no connection of that kind.
    ///
    /// # Panics
    /// When the authority is none.
    pub async fn tls(address: SocketAddr, authority: &str, name: &str) -> Result<Self, tonic::transport::Error> {
        install_providers();
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority)).domain_name(name);
        Ok(Self { channel: endpoint(&format!("https://{address}")).tls_config(tls)?.connect().await? })
    }

    /// Over a Unix socket.
    ///
    /// # Errors
    /// When it is not there, or may not be opened.
    pub async fn socket(path: &Path) -> Result<Self, tonic::transport::Error> {
        let path = path.to_owned();
        let connect = service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        // The name is for the header `:authority` only.
        Ok(Self { channel: endpoint("http://localhost").connect_with_connector(connect).await? })
    }

    /// The channel beneath, for calls of another form.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// What OpenCloud's proxy does at each request that has an access token: it looks the person up by the token's `sub`, without a token
    /// of its own, and then has the gateway mint one for what it found.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn sign_in(&self, id: &str, secret: &str) -> Answered<Session> {
        let user = self.user_by_claim(None, "userid", id).await?;
        Ok(Session { token: RevaToken::of_user(&user).sign(secret), user })
    }

    /// What the web's dialog for sharing does: the names that a text finds.
    ///
    /// # Errors
    /// What the search was refused with.
    pub async fn search(&self, token: &str, text: &str) -> Answered<Vec<String>> {
        Ok(self.find_users(Some(token), &[query(text)]).await?.into_iter().map(|user| user.username).collect())
    }

    /// What sharing with someone does: their id, in whatever tenant the caller is.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn user(&self, token: Option<&str>, id: &str) -> Answered<User> {
        self.user_of(token, UserId { opaque_id: id.to_owned(), ..UserId::default() }).await
    }

    /// The same with a request that says more of whom it means.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn user_of(&self, token: Option<&str>, id: UserId) -> Answered<User> {
        let request = GetUserRequest { user_id: Some(id), ..GetUserRequest::default() };
        let answer = inner(UserApiClient::new(self.channel()).get_user(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.user.expect("an answer that is OK has a user"))
    }

    /// By a claim: `userid`, `username`, `mail`, `uid`, `gid`.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn user_by_claim(&self, token: Option<&str>, claim: &str, value: &str) -> Answered<User> {
        self.user_by(token, GetUserByClaimRequest { claim: claim.to_owned(), value: value.to_owned(), ..GetUserByClaimRequest::default() })
            .await
    }

    /// The same as it is.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn user_by(&self, token: Option<&str>, request: GetUserByClaimRequest) -> Answered<User> {
        let answer = inner(UserApiClient::new(self.channel()).get_user_by_claim(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.user.expect("an answer that is OK has a user"))
    }

    /// The ids of someone's groups.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn groups_of(&self, token: Option<&str>, id: &str) -> Answered<Vec<String>> {
        let user_id = Some(UserId { opaque_id: id.to_owned(), ..UserId::default() });
        let request = GetUserGroupsRequest { user_id, ..GetUserGroupsRequest::default() };
        let answer = inner(UserApiClient::new(self.channel()).get_user_groups(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.groups)
    }

    /// By filters; see [`query`] and [`of_type`].
    ///
    /// # Errors
    /// What the search was refused with.
    pub async fn find_users(&self, token: Option<&str>, filters: &[Filter]) -> Answered<Vec<User>> {
        let request = FindUsersRequest { filters: filters.to_vec(), ..FindUsersRequest::default() };
        let answer = inner(UserApiClient::new(self.channel()).find_users(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.users)
    }

    /// A tenant.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn tenant(&self, token: Option<&str>, id: &str) -> Answered<Tenant> {
        let request = GetTenantRequest { tenant_id: id.to_owned() };
        let answer = inner(TenantApiClient::new(self.channel()).get_tenant(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.tenant.expect("an answer that is OK has a tenant"))
    }

    /// A tenant by a claim: `externalid`, `id`.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn tenant_by_claim(&self, token: Option<&str>, claim: &str, value: &str) -> Answered<Tenant> {
        let request = GetTenantByClaimRequest { claim: claim.to_owned(), value: value.to_owned() };
        let answer = inner(TenantApiClient::new(self.channel()).get_tenant_by_claim(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.tenant.expect("an answer that is OK has a tenant"))
    }

    /// A group.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn group(&self, token: Option<&str>, id: &str) -> Answered<Group> {
        let request = GetGroupRequest { group_id: Some(group_id(id)), ..GetGroupRequest::default() };
        let answer = inner(GroupApiClient::new(self.channel()).get_group(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.group.expect("an answer that is OK has a group"))
    }

    /// A group by a claim.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn group_by_claim(&self, token: Option<&str>, claim: &str, value: &str) -> Answered<Group> {
        let request = GetGroupByClaimRequest { claim: claim.to_owned(), value: value.to_owned(), ..GetGroupByClaimRequest::default() };
        let answer = inner(GroupApiClient::new(self.channel()).get_group_by_claim(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.group.expect("an answer that is OK has a group"))
    }

    /// The ids of a group's members.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn members(&self, token: Option<&str>, id: &str) -> Answered<Vec<String>> {
        let request = GetMembersRequest { group_id: Some(group_id(id)), ..GetMembersRequest::default() };
        let answer = inner(GroupApiClient::new(self.channel()).get_members(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.members.into_iter().map(|id| id.opaque_id).collect())
    }

    /// Whether someone is in a group.
    ///
    /// # Errors
    /// What the look-up was refused with.
    pub async fn has_member(&self, token: Option<&str>, group: &str, user: &str) -> Answered<bool> {
        let user_id = Some(UserId { opaque_id: user.to_owned(), ..UserId::default() });
        let request = HasMemberRequest { group_id: Some(group_id(group)), user_id, ..HasMemberRequest::default() };
        let answer = inner(GroupApiClient::new(self.channel()).has_member(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.ok)
    }

    /// The groups that a request finds.
    ///
    /// # Errors
    /// What the search was refused with.
    pub async fn find_groups(&self, token: Option<&str>, request: FindGroupsRequest) -> Answered<Vec<Group>> {
        let answer = inner(GroupApiClient::new(self.channel()).find_groups(with(token, request)).await)?;
        checked(answer.status)?;
        Ok(answer.groups)
    }
}

/// A filter by text.
#[must_use]
pub fn query(text: &str) -> Filter {
    Filter { r#type: filter::Type::Query.into(), term: Some(filter::Term::Query(text.to_owned())) }
}

/// A filter by type: 1 for people, 6 for those of other clouds.
#[must_use]
pub fn of_type(user_type: i32) -> Filter {
    Filter { r#type: filter::Type::Usertype.into(), term: Some(filter::Term::Usertype(user_type)) }
}

fn group_id(id: &str) -> GroupId {
    GroupId { opaque_id: id.to_owned(), ..GroupId::default() }
}

fn endpoint(address: &str) -> Endpoint {
    Endpoint::from_shared(address.to_owned()).unwrap().timeout(PATIENCE)
}

/// The request with a token as OpenCloud sends it.
///
/// # Panics
/// When the token is no text for a header.
pub fn with<T>(token: Option<&str>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        let value: AsciiMetadataValue = token.parse().expect("a token is visible ASCII");
        request.metadata_mut().insert("x-access-token", value);
    }
    request
}

fn inner<T>(answer: Result<Response<T>, Status>) -> Answered<T> {
    answer.map(Response::into_inner).map_err(Refusal::Grpc)
}

fn checked(status: Option<rpc::Status>) -> Answered<()> {
    let status = status.expect("every CS3 answer has a status");
    match status.code() {
        Code::Ok => Ok(()),
        code => Err(Refusal::Cs3(code, status.message)),
    }
}
