//! The soak's configuration: two tenants with people of the same names, whose tokens last longer than a run.

use serde_json::{Value, json};

use super::{client::ACCESS_SECONDS, history::Asker};
use crate::{Configuration, configuration::hash_of};

/// The tenants. No answer of one holds the name of another.
pub const TENANTS: [&str; 2] = ["acme", "globex"];

/// How many people each has.
const PEOPLE: u32 = 40;

/// Whose the client of this number is.
#[must_use]
pub fn asker(number: u32) -> Asker {
    let tenant = TENANTS[number as usize % TENANTS.len()].to_owned();
    Asker { tenant, username: format!("person{}", number / 2 % PEOPLE) }
}

/// The configuration: two hundred of one address are no attack here, and nothing ends by itself while a run lasts.
#[must_use]
pub fn configuration() -> Configuration {
    let users: Vec<Value> = (0..PEOPLE * 2).map(|number| person(number, &asker(number))).collect();
    let plenty = json!({
        "accountBurst": 1_000_000, "accountSeconds": 1, "addressBurst": 1_000_000, "addressSeconds": 1, "spreadBurst": 1_000_000,
        "spreadSeconds": 1,
    });
    let lifetimes = json!({"codeSeconds": 600, "accessTokenSeconds": ACCESS_SECONDS});
    Configuration::default().with("/connectors/0/users", users).with("/guessing", plenty).with("/lifetimes", lifetimes)
}

fn person(number: u32, Asker { tenant, username }: &Asker) -> Value {
    json!({
        "id": format!("u{number}"), "tenant": tenant, "username": username, "displayName": format!("Person of {tenant}"),
        "email": format!("{username}@{tenant}.example"), "emailVerified": true, "groups": ["staff"], "password": hash_of(tenant, username),
    })
}
