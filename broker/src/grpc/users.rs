//! `UserAPI`: parse, bound, one use case, render.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::{
    call::Call,
    messages::user::{
        FindUsersRequest, FindUsersResponse, GetUserByClaimRequest, GetUserByClaimResponse, GetUserGroupsRequest, GetUserGroupsResponse,
        GetUserRequest, GetUserResponse, user_api_server::UserApi,
    },
    parse, render,
};
use crate::App;

/// The service.
#[derive(Debug)]
pub(super) struct UsersApi(pub(super) Arc<App>);

#[tonic::async_trait]
impl UserApi for UsersApi {
    async fn get_user(&self, request: Request<GetUserRequest>) -> Result<Response<GetUserResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetUser", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let who = parse::user_ref(asked.user_id)?;
            let found = cs3.user(&caller, &who, asked.skip_fetching_user_groups, call.now).await?;
            Ok(render::user(call.issuer(), &found))
        };
        let (status, user) = call.end(work).await?;
        Ok(Response::new(GetUserResponse { status: Some(status), opaque: None, user }))
    }

    async fn get_user_by_claim(&self, request: Request<GetUserByClaimRequest>) -> Result<Response<GetUserByClaimResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetUserByClaim", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let (claim, value) = parse::claim(asked.claim, asked.value)?;
            let found = cs3.user_by_claim(&caller, &claim, &value, asked.skip_fetching_user_groups, call.now).await?;
            Ok(render::user(call.issuer(), &found))
        };
        let (status, user) = call.end(work).await?;
        Ok(Response::new(GetUserByClaimResponse { status: Some(status), opaque: None, user }))
    }

    async fn get_user_groups(&self, request: Request<GetUserGroupsRequest>) -> Result<Response<GetUserGroupsResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetUserGroups", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let who = parse::user_ref(asked.user_id)?;
            let groups = cs3.groups_of(&caller, &who, call.now).await?;
            Ok(groups.iter().map(ToString::to_string).collect())
        };
        let (status, groups) = call.end(work).await?;
        Ok(Response::new(GetUserGroupsResponse { status: Some(status), opaque: None, groups: groups.unwrap_or_default() }))
    }

    async fn find_users(&self, request: Request<FindUsersRequest>) -> Result<Response<FindUsersResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "FindUsers", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let search = parse::user_search(asked.filters, asked.skip_fetching_user_groups, call.least_characters())?;
            let found = cs3.find(&caller, &search, call.now).await?;
            Call::audit_search(&caller, found.len());
            Ok(found.iter().map(|user| render::user(call.issuer(), user)).collect())
        };
        let (status, users) = call.end(work).await?;
        Ok(Response::new(FindUsersResponse { status: Some(status), opaque: None, users: users.unwrap_or_default() }))
    }
}
