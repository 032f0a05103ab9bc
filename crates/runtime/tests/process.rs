//! Real child processes.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::bounded::check;
use tiffany::io::Lines;
use tiffany::process::Command;
use tiffany::{cancel, sleep, spawn};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The state of a process as the system shows it, such as `Z`; `None` if there is none.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn lines_come_while_the_child_runs() {
    check(async {
        // The child goes on only when it is told, so a line that comes cannot have waited for its end.
        let mut command = shell("echo one; read go; echo two $go");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut lines = Lines::new(child.stdout.take().unwrap());
        assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
        assert_eq!(child.try_wait()?, None);
        child.stdin.as_ref().unwrap().write_all(b"times\n").await?;
        assert_eq!(lines.next_line().await?.as_deref(), Some("two times"));
        assert_eq!(lines.next_line().await?, None);
        assert!(child.wait().await?.success());
        Ok(())
    });
}

#[test]
fn the_exit_code_and_no_zombie() {
    check(async {
        let mut child = shell("exit 7").spawn()?;
        let pid = child.id();
        assert_eq!(child.wait().await?.code(), Some(7));
        assert_eq!(child.wait().await?.code(), Some(7), "asked again");
        assert_eq!(state(pid), None);
        assert_eq!(shell("true").status().await?.code(), Some(0));
        Ok(())
    });
}

#[test]
fn a_killed_child_says_by_which_signal() {
    check(async {
        let mut child = shell("exec sleep 60").spawn()?;
        child.kill()?;
        assert_eq!(child.wait().await?.signal(), Some(9));
        assert_eq!(shell("kill -TERM $$").status().await?.signal(), Some(15));
        Ok(())
    });
}

#[test]
fn output_of_both_kinds_is_collected_however_long() {
    check(async {
        // More than a pipe holds, on both, so that reading one after the other would never end.
        let script = "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 3";
        let output = shell(script).output().await?;
        assert_eq!(output.status.code(), Some(3));
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
        Ok(())
    });
}

#[test]
fn a_child_reads_to_the_end_of_its_input() {
    check(async {
        let mut command = Command::new("wc");
        let mut child = command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().unwrap();
        stdin.write_all(&vec![b'x'; 200_000]).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "200000");
        Ok(())
    });
}

#[test]
fn writing_to_a_child_that_has_ended_is_an_error() {
    check(async {
        let mut child = shell("exit 0").stdin(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().unwrap();
        child.wait().await?;
        let error = stdin.write_all(&[0; 100_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        Ok(())
    });
}

#[test]
fn a_program_that_is_not_there() {
    check(async {
        let error = Command::new("/nowhere/at/all").spawn().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        Ok(())
    });
}

#[test]
fn waiting_for_a_child_stops_nobody() {
    check(async {
        let began = Instant::now();
        let slow = spawn(async { shell("sleep 0.2").status().await }).await;
        for _ in 0..5 {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(began.elapsed() < Duration::from_millis(150));
        assert!(slow.await.unwrap()?.success());
        Ok(())
    });
}

#[test]
fn a_cancelled_task_kills_its_child_if_asked_to() {
    check(async {
        let (tell, told) = tiffany::channel::<u32>(1).await;
        let task = spawn(async move {
            let mut child = shell("exec sleep 60").kill_on_drop().spawn()?;
            tell.send(child.id()).await.unwrap();
            child.wait().await.map(drop)
        })
        .await;
        let pid = told.receive().await.unwrap().unwrap();
        assert!(state(pid).is_some());
        cancel(&task).await;
        // Killed, and buried too.
        while state(pid).is_some() {
            sleep(Duration::from_millis(2)).await;
        }
        Ok::<(), io::Error>(())
    });
}
