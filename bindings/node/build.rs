//! Linker options for an addon.

fn main() {
    napi_build::setup();
}
