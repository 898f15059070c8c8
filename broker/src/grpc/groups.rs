//! `GroupAPI`: parse, bound, one use case, render.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::{
    call::Call,
    messages::group::{
        FindGroupsRequest, FindGroupsResponse, GetGroupByClaimRequest, GetGroupByClaimResponse, GetGroupRequest, GetGroupResponse,
        GetMembersRequest, GetMembersResponse, HasMemberRequest, HasMemberResponse, group_api_server::GroupApi,
    },
    parse, render,
};
use crate::App;

/// The service.
#[derive(Debug)]
pub(super) struct GroupsApi(pub(super) Arc<App>);

#[tonic::async_trait]
impl GroupApi for GroupsApi {
    async fn get_group(&self, request: Request<GetGroupRequest>) -> Result<Response<GetGroupResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetGroup", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let id = parse::group_ref(asked.group_id)?;
            let found = cs3.group(&caller, &id, asked.skip_fetching_members, call.now).await?;
            Ok(render::group(call.issuer(), &found))
        };
        let (status, group) = call.end(work).await?;
        Ok(Response::new(GetGroupResponse { status: Some(status), opaque: None, group }))
    }

    async fn get_group_by_claim(&self, request: Request<GetGroupByClaimRequest>) -> Result<Response<GetGroupByClaimResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetGroupByClaim", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let (claim, value) = parse::claim(asked.claim, asked.value)?;
            let found = cs3.group_by_claim(&caller, &claim, &value, asked.skip_fetching_members, call.now).await?;
            Ok(render::group(call.issuer(), &found))
        };
        let (status, group) = call.end(work).await?;
        Ok(Response::new(GetGroupByClaimResponse { status: Some(status), opaque: None, group }))
    }

    async fn get_members(&self, request: Request<GetMembersRequest>) -> Result<Response<GetMembersResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetMembers", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let id = parse::group_ref(asked.group_id)?;
            let members = cs3.members(&caller, &id, call.now).await?;
            Ok(members.iter().map(|id| render::user_id(call.issuer(), id)).collect())
        };
        let (status, members) = call.end(work).await?;
        Ok(Response::new(GetMembersResponse { status: Some(status), opaque: None, members: members.unwrap_or_default() }))
    }

    async fn has_member(&self, request: Request<HasMemberRequest>) -> Result<Response<HasMemberResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "HasMember", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let (id, who) = (parse::group_ref(asked.group_id)?, parse::user_ref(asked.user_id)?);
            cs3.has_member(&caller, &id, &who, call.now).await
        };
        let (status, ok) = call.end(work).await?;
        Ok(Response::new(HasMemberResponse { status: Some(status), opaque: None, ok: ok.unwrap_or_default() }))
    }

    async fn find_groups(&self, request: Request<FindGroupsRequest>) -> Result<Response<FindGroupsResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "FindGroups", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let search = parse::group_search(asked.filters, asked.skip_fetching_members, call.least_characters())?;
            let found = cs3.find_groups(&caller, &search, call.now).await?;
            Call::audit_search(&caller, found.len());
            Ok(found.iter().map(|group| render::group(call.issuer(), group)).collect())
        };
        let (status, groups) = call.end(work).await?;
        Ok(Response::new(FindGroupsResponse { status: Some(status), opaque: None, groups: groups.unwrap_or_default() }))
    }
}
