//! Compiles the CS3 messages for the suites' own client, and for the bare server that benchmarks hold the door against.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../broker/proto");
    let files = ["user", "tenant", "group"].map(|what| format!("cs3/identity/{what}/v1beta1/{what}_api.proto"));
    tonic_prost_build::configure().include_file("messages.rs").compile_fds(protox::compile(files, ["../broker/proto"])?)?;
    Ok(())
}
