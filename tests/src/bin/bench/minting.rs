//! Access tokens for an identity, against the bare signature with a key at hand; one thread.

use std::{hint::black_box, time::Instant};

use anyhow::{Context as _, Result};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};

use super::{
    Effort,
    broker::{Broker, Person, now},
    figures::{Bound, Figure, Spread, Unit, grouped},
};

/// How many are made between two looks at the clock.
const AT_ONCE: u32 = 200;
/// Seconds of each turn.
const TURN: f64 = 0.4;

/// From an identity to a signed access token, by the way that every grant of a person's ends in.
pub(crate) fn measure(effort: &Effort, broker: &Broker, people: &[Person]) -> Result<Figure> {
    let person = people.first().context("someone has signed in")?;
    let client = broker.app.grants.clients.get("app").context("the client is configured")?;
    let mint = broker.app.grants.minting(client, &person.identity);
    let token = mint(now())?.access_token;
    let (message, _) = token.rsplit_once('.').context("a token has three parts")?;
    let (key, random) = (EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?, SystemRandom::new());
    let (mut signed, mut minted) = (Vec::new(), Vec::new());
    for round in 0..=effort.rounds {
        let floor = rate(|| {
            black_box(key.sign(&random, black_box(message.as_bytes()))?);
            Ok(())
        })?;
        let own = rate(|| {
            black_box(mint(now())?);
            Ok(())
        })?;
        if round > 0 {
            signed.push(floor);
            minted.push(own);
        }
    }
    let ratios = signed.iter().zip(&minted).map(|(floor, own)| own / floor).collect();
    let (signed, minted) = (Spread::new(signed).median(), Spread::new(minted).median());
    let detail = format!(
        "Denizen {}/s, bare signature {}/s of one core; {} bytes, {:.1} µs beside the signature",
        grouped(minted),
        grouped(signed),
        token.len(),
        1e6 / minted - 1e6 / signed
    );
    Ok(Figure { name: "An access token minted", unit: Unit::Ratio, spread: Spread::new(ratios), bound: Bound::AtLeast(0.7), detail })
}

fn rate(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begun, mut done) = (Instant::now(), 0_u32);
    loop {
        for _ in 0..AT_ONCE {
            once()?;
        }
        done += AT_ONCE;
        let elapsed = begun.elapsed().as_secs_f64();
        if elapsed >= TURN {
            return Ok(f64::from(done) / elapsed);
        }
    }
}
