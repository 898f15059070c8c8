//! The suites' own reva tokens, held against the real OpenCloud: what it takes and refuses. There is no users provider behind it here.

use denizen_tests::{OpenCloud, RevaToken, cs3::rpc::Code, ports};

const SECRET: &str = "the-jwt-secret-of-these-tests-0123456789";
const JANE: &str = "cccccccc-0000-4000-8000-000000000001";

#[tokio::test]
async fn opencloud_takes_the_tokens_that_the_suites_mint() {
    let nobody = format!("dns:127.0.0.1:{}", ports::free());
    let Some(opencloud) = OpenCloud::start(&nobody, SECRET).await else { return };
    let status = async |token: &RevaToken, secret: &str| opencloud.search(&token.sign(secret), "jane").await.status;
    let good = RevaToken::user(JANE, "acme");
    let taken = status(&good, SECRET).await;
    assert!(taken >= 500, "taken, and the search then finds no users provider: {taken}");
    assert_eq!(status(&RevaToken::service_account(JANE), SECRET).await, taken);
    assert_eq!(status(&good.clone().tenantless(), SECRET).await, taken, "it does not look at tenants itself");

    assert_eq!(status(&good, "another-jwt-secret-of-another-instance").await, 401);
    assert_eq!(status(&good.clone().expires_in(-60), SECRET).await, 401);
    assert_eq!(status(&good.clone().by("none"), SECRET).await, 401);
    assert_eq!(status(&good.clone().unscoped(), SECRET).await, 401);
    assert_eq!(status(&RevaToken::public_share(JANE, "acme"), SECRET).await, 401, "a link's visitor does not search");
}

#[tokio::test]
async fn an_outage_of_the_users_provider_is_no_sign_in() {
    let nobody = format!("dns:127.0.0.1:{}", ports::free());
    let Some(opencloud) = OpenCloud::start(&nobody, SECRET).await else { return };
    assert_eq!(opencloud.sign_in(JANE).await.unwrap_err().cs3(), Code::Internal);
}
