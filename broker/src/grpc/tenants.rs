//! `TenantAPI`: parse, bound, one use case, render.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::{
    call::Call,
    messages::tenant::{
        GetTenantByClaimRequest, GetTenantByClaimResponse, GetTenantRequest, GetTenantResponse, tenant_api_server::TenantApi,
    },
    parse, render,
};
use crate::App;

/// The service.
#[derive(Debug)]
pub(super) struct TenantsApi(pub(super) Arc<App>);

#[tonic::async_trait]
impl TenantApi for TenantsApi {
    async fn get_tenant(&self, request: Request<GetTenantRequest>) -> Result<Response<GetTenantResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetTenant", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let id = parse::value(asked.tenant_id, "`tenant_id` is missing")?;
            let found = cs3.tenant(&caller, &id)?;
            Ok(render::tenant(cs3, &found))
        };
        let (status, tenant) = call.end(work).await?;
        Ok(Response::new(GetTenantResponse { status: Some(status), tenant }))
    }

    async fn get_tenant_by_claim(&self, request: Request<GetTenantByClaimRequest>) -> Result<Response<GetTenantByClaimResponse>, Status> {
        let (call, asked) = Call::begin(&self.0, "GetTenantByClaim", request);
        let work = async {
            let (cs3, caller) = call.caller().await?;
            let (claim, value) = parse::claim(asked.claim, asked.value)?;
            let found = cs3.tenant_by_claim(&caller, &claim, &value)?;
            Ok(render::tenant(cs3, &found))
        };
        let (status, tenant) = call.end(work).await?;
        Ok(Response::new(GetTenantByClaimResponse { status: Some(status), tenant }))
    }
}
