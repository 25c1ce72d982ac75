//! The preStop hook of the shipped engines, run by a real Python against a server here.

use crate::kustomize::render;
use crate::{root, skipped};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The hook's program; every overlay with engines has the same.
fn program() -> String {
    let programs = ["vllm", "discovery"].map(|overlay| {
        let objects = render(&root().join("k8s/overlays").join(overlay));
        let engine = objects.iter().find(|object| {
            object["metadata"]["name"] == "vllm" && object["spec"]["template"].is_object()
        });
        let container = &engine.unwrap()["spec"]["template"]["spec"]["containers"][0];
        let command = &container["lifecycle"]["preStop"]["exec"]["command"];
        assert_eq!(command[0], "python3");
        assert_eq!(command[1], "-c");
        command[2].as_str().unwrap().to_owned()
    });
    assert_eq!(programs[0], programs[1]);
    programs[0].clone()
}

/// Run `program` with the addresses of this machine; what it prints.
fn run(program: &str, admin: &str, token: &str) -> Option<String> {
    for part in ["streamgate-admin:9180", "/etc/streamgate-admin/token", "time.sleep(10)"] {
        assert!(program.contains(part), "{part}");
    }
    let program = program
        .replace("streamgate-admin:9180", admin)
        .replace("/etc/streamgate-admin/token", token)
        .replace("time.sleep(10)", "print(\"waits\")");
    let mut command = Command::new(std::env::var("PYTHON").unwrap_or_else(|_| "python3".into()));
    command.arg("-c").arg(program).env("STREAMGATE_ENDPOINT", "vllm-0.vllm:8000");
    for proxy in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(proxy);
    }
    let Ok(output) = command.output() else {
        skipped("the engines' preStop hook: no python3 here");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn it_asks_for_the_drain_of_its_own_endpoint() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            .unwrap();
        String::from_utf8(head).unwrap()
    });
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret-token\n").unwrap();
    let Some(printed) = run(&program(), &admin, token.to_str().unwrap()) else { return };
    assert_eq!(printed, "");
    let head = server.join().unwrap();
    assert!(
        head.starts_with("POST /api/v1/endpoints/vllm-0.vllm:8000/drain?wait=80s HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.to_ascii_lowercase().contains("\r\nauthorization: bearer secret-token\r\n"),
        "{head}"
    );
}

#[test]
fn without_an_answer_it_waits_for_the_propagation() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let Some(printed) = run(&program(), &free, "/no/such/file") else { return };
    assert!(printed.starts_with("no drain before SIGTERM:"), "{printed}");
    assert!(printed.ends_with("waits\n"), "{printed}");
}
