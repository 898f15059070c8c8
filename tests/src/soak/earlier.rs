//! An embedded store that goes back in time: its file is put back to what it was at an earlier kill, and each of a few people tries what an
//! answer between the two has forbidden or promised them. So the checker is seen to see it.

use std::{fs, sync::Arc, time::Duration};

use super::{
    checker::{Bounds, Kind, Verdict},
    client::{Client, Pace, Visit},
    door::Door,
    embedded::{begin, judged},
    history::Fault,
    people::asker,
};
use crate::Broker;

/// What the checker must say of it, and nothing else.
pub const SHOWS: [Kind; 7] =
    [Kind::CodeUsedTwice, Kind::OldRefreshToken, Kind::FamilyAlive, Kind::SessionAlive, Kind::BrowserAlive, Kind::RevokedAlive, Kind::Lost];

/// Runs it.
///
/// # Panics
/// When the broker does not start, or what leads up to it is not answered as it should be.
pub async fn go_back_in_time() -> Verdict {
    let (mut broker, door) = begin().await;
    let (file, bounds) = (broker.folder().join("denizen.redb"), Bounds::default());
    let earlier = file.with_extension("earlier");

    let mut code = come(&door, 0).await;
    let mut rotated = come_with_tokens(&door, 1).await;
    let mut ended = come_with_tokens(&door, 2).await;
    let mut signed_out = come_with_tokens(&door, 3).await;
    let revoked = come_with_tokens(&door, 4).await;
    kill(&mut broker, &door, || fs::copy(&file, &earlier)).await;

    code.0.exchange(&mut code.1).await.expect("a code is good once");
    rotated.0.refresh(&mut rotated.1).await.expect("a refresh token is good once");
    assert!(ended.0.exchange(&mut ended.1).await.is_none(), "a code is good once");
    let browser = signed_out.1.browser.clone();
    signed_out.0.log_out(&mut signed_out.1).await.expect("who is signed in can sign out");
    signed_out.1.browser = browser;
    revoked.0.revoke(&revoked.1).await.expect("a token can be revoked");
    let mut lost = come_with_tokens(&door, 5).await;
    kill(&mut broker, &door, || fs::copy(&earlier, &file)).await;

    // Whatever comes of these, the checker is to say it.
    tokio::time::sleep(Duration::from_micros(bounds.reviews)).await;
    code.0.exchange(&mut code.1).await;
    let old = rotated.1.old.remove(0);
    rotated.0.refresh_with(&mut rotated.1, &old).await;
    ended.0.refresh(&mut ended.1).await;
    signed_out.0.review(&signed_out.1).await;
    signed_out.0.account(&mut signed_out.1).await;
    revoked.0.review(&revoked.1).await;
    lost.0.refresh(&mut lost.1).await;
    judged(&door, &bounds)
}

/// Someone signs in, and has a code.
async fn come(door: &Arc<Door>, number: u32) -> (Client, Visit) {
    let mut client = Client::new(number, Arc::clone(door), asker(number), Pace { rest: Duration::ZERO, deeds: 0 });
    let visit = client.sign_in().await.expect("they sign in");
    (client, visit)
}

/// The same, up to the tokens.
async fn come_with_tokens(door: &Arc<Door>, number: u32) -> (Client, Visit) {
    let (mut client, mut visit) = come(door, number).await;
    client.exchange(&mut visit).await.expect("a code is good");
    (client, visit)
}

/// Kills the broker, does something to its file, and starts it again.
async fn kill<T>(broker: &mut Broker, door: &Door, to_its_file: impl FnOnce() -> std::io::Result<T>) {
    let outage = door.faulty(Fault::BrokerKilled(0));
    broker.kill();
    to_its_file().expect("the file is there");
    broker.restart().await;
    door.well_again(outage);
}
