//! The key of a step where others look for it: in the environment of a real program, and in the header that a real server reads.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use tiffany::TaskError;
use tiffany::durable::{Retry, StepError, step_with};

use super::{Dir, ms};

#[test]
fn a_program_finds_its_key_and_attempt_in_its_environment() {
    async fn work(_: ()) -> Result<String, TaskError> {
        let step = step_with("say", |attempt| {
            let script =
                "test $TIFFANY_ATTEMPT -gt 1 && echo $TIFFANY_IDEMPOTENCY_KEY/$TIFFANY_ATTEMPT";
            let output = attempt.command("sh").args(["-c", script]).output()?;
            match output.status.success() {
                true => Ok(String::from_utf8(output.stdout)?.trim().to_string()),
                false => Err(StepError::from("the first attempt fails")),
            }
        });
        step.retry(Retry::times(2).first(ms(1))).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<String>("work", "a", &()).unwrap();
    let said = runtime.wait_for(&run).unwrap();
    assert_eq!(said, format!("{}/2/2", run.uuid()));
}

/// Answers two requests, the first with an error, and tells what they said about their keys.
fn serve(listener: &TcpListener, tell: &mpsc::Sender<String>) {
    for answer in ["503 Later", "200 OK"] {
        let (mut stream, _) = listener.accept().unwrap();
        for line in BufReader::new(stream.try_clone().unwrap()).lines() {
            let line = line.unwrap();
            if line.is_empty() {
                break;
            }
            if line.starts_with("Idempotency-Key") {
                tell.send(line).unwrap();
            }
        }
        write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
    }
}

#[test]
fn a_server_finds_the_same_key_in_every_attempt() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    let server = std::thread::spawn(move || serve(&listener, &tell));
    let dir = Dir::new();
    let work = move |()| async move {
        let step = step_with("pay", move |attempt| {
            let mut stream = TcpStream::connect(address)?;
            let (name, key) = attempt.idempotency_header();
            write!(
                stream,
                "POST /pay HTTP/1.1\r\nHost: shop\r\n{name}: {key}\r\nContent-Length: 0\r\n\r\n"
            )?;
            let mut status = String::new();
            BufReader::new(stream).read_line(&mut status)?;
            match status.contains("200") {
                true => Ok(attempt.number()),
                false => Err(StepError::from(status)),
            }
        });
        step.retry(Retry::times(3).first(ms(1))).await
    };
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<u64>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 2);
    server.join().unwrap();
    let key = format!("Idempotency-Key: {}/2", run.uuid());
    assert_eq!(told.iter().collect::<Vec<_>>(), [key.clone(), key]);
}
