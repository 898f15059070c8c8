//! Compiles the CS3 messages below `proto/`, without protoc.

use std::{env, fs, io, path::PathBuf};

use prost::Message as _;

const FILES: [&str; 3] = [
    "cs3/identity/user/v1beta1/user_api.proto",
    "cs3/identity/tenant/v1beta1/tenant_api.proto",
    "cs3/identity/group/v1beta1/group_api.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let described = protox::compile(FILES, ["proto"])?;
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| io::Error::other("cargo gives OUT_DIR"))?;
    fs::write(out.join("cs3.bin"), described.encode_to_vec())?;
    tonic_prost_build::configure().build_client(false).include_file("messages.rs").compile_fds(described)?;
    Ok(())
}
