//! Makes the messages and the service of `proto/` into Rust, without a `protoc` that would have to be installed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], ["proto"])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    // What reflection tells.
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure().build_transport(false).include_file("messages.rs").compile_fds(files)?;
    Ok(())
}
