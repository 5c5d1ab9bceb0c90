//! The two steps of the README, word for word, taken by a router crate of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A router's decoder of revision 1, over a msgpack reader of its own.
const ROUTER: &str = r#"
mod msgpack;
use msgpack::{parse, Value};

pub struct Load {
    pub running: u64,
    pub waiting: u64,
    pub tokens: u64,
    pub capacity: u64,
    pub rank: Option<u64>,
}

pub fn decode_load(bytes: &[u8]) -> Option<Load> {
    let (value, end) = parse(bytes, 0).ok()?;
    let Value::List(elements) = value else { return None };
    if end != bytes.len() || elements.first()? != &Value::Str(b"LoadStat".to_vec()) {
        return None;
    }
    let count = |index: usize| match elements.get(index) {
        Some(Value::Int(value)) => u64::try_from(*value).ok(),
        // a missing count
        _ => None,
    };
    let rank = match elements.get(5)? {
        Value::Nil => None,
        _ => Some(count(5)?),
    };
    Some(Load { running: count(1)?, waiting: count(2)?, tokens: count(3)?, capacity: count(4)?, rank })
}
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The fenced block of the README in that language.
fn block(language: &str) -> String {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let opened = readme.split_once(&format!("```{language}\n")).expect(language).1;
    opened.split_once("```").expect("a closed block").0.to_owned()
}

/// Writes the router crate, with the README's two steps taken.
fn router(name: &str, source: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for part in ["src", "tests"] {
        fs::create_dir_all(folder.join(part)).expect("a folder");
    }
    let manifest = format!(
        "[package]\nname = \"my_router\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n{}\n\
         [patch.crates-io]\nloadwire-check = {{ path = {:?} }}\n\n[workspace]\n",
        block("toml"),
        root()
    );
    let msgpack = fs::read_to_string(root().join("tests/support/msgpack.rs")).expect("support");
    fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
    fs::write(folder.join("src/msgpack.rs"), msgpack).expect("a file");
    fs::write(folder.join("src/lib.rs"), source).expect("a file");
    fs::write(folder.join("tests/load_contract.rs"), block("rust")).expect("a file");
    folder
}

fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(folder)
        // One place for the builds of both routers, apart from the one that runs this test.
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("adoption"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo")
}

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A right router passes with what the README says and no more, and its dev-dependency brings in
/// `rmp` alone; a router that fills in zeros gets the listing that the README shows.
#[test]
fn the_two_steps_of_the_readme_work() {
    let right = router("right", ROUTER);
    let passed = cargo(&right, &["test", "--offline"]);
    assert!(passed.status.success(), "{}", text(&passed));
    assert!(text(&passed).contains("the_load_decoder_keeps_the_contract ... ok"));

    let tree =
        |edges| text(&cargo(&right, &["tree", "--offline", "--prefix", "depth", "--edges", edges]));
    let shipped = tree("normal");
    assert!(!shipped.contains("loadwire-check"), "not in what the router ships: {shipped}");
    let tested = tree("normal,dev");
    let names = |depth: char| -> Vec<String> {
        let at_depth = tested.lines().filter_map(|line| line.strip_prefix(depth));
        at_depth.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    };
    assert_eq!(names('1'), ["loadwire-check"], "{tested}");
    assert_eq!(names('2'), ["rmp"], "{tested}");

    let zeros = ROUTER
        .replace("// a missing count\n", "None => Some(0),\n")
        .replace("elements.get(5)?", "elements.get(5).unwrap_or(&Value::Nil)");
    let wrong = router("wrong", &zeros);
    let failed = cargo(&wrong, &["test", "--offline"]);
    assert!(!failed.status.success());
    assert!(text(&failed).contains(block("text").trim_end()), "{}", text(&failed));
}

/// The library builds with the oldest Rust that the manifest names.
#[test]
#[ignore = "needs that toolchain and the registry: cargo test --test adoption -- --ignored"]
fn the_library_builds_with_the_oldest_rust() {
    let oldest = format!("+{}", env!("CARGO_PKG_RUST_VERSION"));
    let folder = router("oldest", ROUTER);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    let manifest = manifest.replace("[dev-dependencies]", "[dependencies]");
    fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
    // By the toolchain manager: inside `cargo test`, CARGO is the cargo of one toolchain.
    let cargo = |arguments: &[&str]| {
        let output = Command::new("cargo")
            .arg(&oldest)
            .args(arguments)
            .current_dir(&folder)
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("RUSTC")
            .env_remove("CARGO")
            .output()
            .expect("cargo");
        assert!(output.status.success(), "{}", text(&output));
    };
    cargo(&["update", "-p", "rmp", "--precise", "0.8.14"]);
    cargo(&["build"]);
}
