//! Searches for the expression that costs most, and prints what it costs: time in this process, peak memory in one of its own.
//!
//! `cargo run --release -p claims-mapping --example worst_expression [EXPRESSIONS DRAWN]`

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a program that measures may stop where it can not")]

#[path = "../tests/adversary/mod.rs"]
mod adversary;

use std::time::{Duration, Instant};

use adversary::{compile, drawn, fits, fixed, user};

/// Cases whose memory is measured, out of the slowest and of a walk through all.
const MEASURED: usize = 40;

#[derive(Clone)]
struct Cost {
    time: Duration,
    kib: u64,
    claims: usize,
    source: String,
    outcome: String,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some("--one") {
        let claims = arguments.next().and_then(|text| text.parse().ok()).expect("the number of the claims");
        println!("{}", memory_of(claims, &arguments.next().expect("the expression")));
        return;
    }
    let draws = first.and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let all_claims: Vec<_> = adversary::claims().into_iter().map(|(name, claims)| (name, user(claims))).collect();
    let mut costs = Vec::new();
    let (mut admitted, mut refused) = (0, Vec::new());
    for source in fixed().into_iter().chain(drawn(1).filter(|source| fits(source)).take(draws)) {
        let Ok(mapping) = compile(&source) else {
            refused.push(source);
            continue;
        };
        admitted += 1;
        for (index, (_, user)) in all_claims.iter().enumerate() {
            // The better of two: the first one also waits for pages and caches.
            let runs = [(); 2].map(|()| {
                let start = Instant::now();
                let outcome = mapping.evaluate(user);
                (start.elapsed(), outcome.map_or_else(|rejection| rejection.to_string(), |_| "taken".to_owned()))
            });
            let (time, outcome) = runs.into_iter().min_by_key(|run| run.0).expect("two runs");
            costs.push(Cost { time, kib: 0, claims: index, source: source.clone(), outcome });
        }
    }
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.time));
    // On a machine that does other things too, the slowest are those that were interrupted: they get more chances.
    for cost in costs.iter_mut().take(200) {
        let Ok(mapping) = compile(&cost.source) else { continue };
        for _ in 0..10 {
            let start = Instant::now();
            let _ = mapping.evaluate(&all_claims[cost.claims].1);
            cost.time = cost.time.min(start.elapsed());
        }
    }
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.time));
    println!("{admitted} expressions admitted, {} of the fixed ones refused when loaded, {} cases\n", refused.len(), costs.len());
    println!("slowest:");
    costs.iter().take(12).for_each(|cost| print(cost, all_claims[cost.claims].0));

    let step = (costs.len() / 400).max(1);
    let mut measured: Vec<Cost> = costs.iter().take(MEASURED).chain(costs.iter().step_by(step)).cloned().collect();
    // Copies of claims are the largest values: every case that has a `map` in it, too.
    measured.extend(costs.iter().filter(|cost| cost.source.contains("map") || cost.source.contains("split")).take(400).cloned());
    for cost in &mut measured {
        cost.kib = of_its_own(cost);
    }
    measured.sort_by_key(|cost| std::cmp::Reverse(cost.kib));
    println!("\nlargest, as the peak of a whole process (that of one with an empty expression is the last line):");
    measured.iter().take(8).for_each(|cost| print(cost, all_claims[cost.claims].0));
    let empty = Cost { time: Duration::ZERO, kib: 0, claims: 0, source: "''".to_owned(), outcome: String::new() };
    print(&Cost { kib: of_its_own(&empty), ..empty }, all_claims[0].0);
    if !refused.is_empty() {
        println!("\nrefused: {refused:?}");
    }
}

fn of_its_own(cost: &Cost) -> u64 {
    let own = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(own).args(["--one", &cost.claims.to_string(), &cost.source]).output().expect("a process");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(u64::MAX)
}

fn print(cost: &Cost, claims: &str) {
    let source: String = cost.source.chars().take(110).collect();
    println!("{:>8.2} ms {:>7} KiB  {source}\n             on {claims}: {}", cost.time.as_secs_f64() * 1e3, cost.kib, cost.outcome);
}

/// The peak of the resident memory of a process that has read the claims and evaluated once, in KiB: all of it, not the growth.
fn memory_of(claims: usize, source: &str) -> u64 {
    let mapping = compile(source).expect("an admitted expression");
    let user = user(adversary::claims().swap_remove(claims).1);
    let _ = mapping.evaluate(&user);
    peak()
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a kernel that counts");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
