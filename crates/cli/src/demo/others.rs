//! The demo's other workflows, for visitors of its page: one waits for a person, one fails, one
//! reports progress, and one never ends.

use std::time::Duration;

use tiffany::durable::{Retry, approve, step, step_with};
use tiffany::pal::{LogLevel, log, progress};
use tiffany::{Builder, TaskError, gather, sleep, try_spawn};

pub(super) fn register(builder: Builder) -> Builder {
    builder
        .register("refund", refund)
        .register("import", import)
        .register("report", report)
        .register("pulse", pulse)
}

/// Reads receipts, asks a person, and pays.
async fn refund(euros: u32) -> Result<String, TaskError> {
    for receipt in 0..6 {
        progress(receipt, 6, "receipts read").await;
        sleep(Duration::from_millis(500)).await;
    }
    let answer = approve(format!("Refund {euros} EUR?"))
        .choices(["all", "half", "none"])
        .payload(&serde_json::json!({ "euros": euros, "receipts": 6 }))
        .await?;
    let paid = match answer.choice.as_str() {
        "all" => euros,
        "half" => euros / 2,
        _ => 0,
    };
    step("pay back", move || Ok::<_, String>(format!("{paid} EUR paid back"))).input(&paid).await
}

/// Checks rows in separate tasks; one row is bad, and its error propagates to the root.
async fn import(rows: u32) -> Result<u32, TaskError> {
    let mut sheets = Vec::new();
    for sheet in 1..=3 {
        let named = format!("sheet {sheet}");
        sheets.push(try_spawn(async move { check_sheet(sheet, rows).await }).name(named).await);
    }
    gather(sheets).await.map(|counts| counts.into_iter().sum())
}

async fn check_sheet(sheet: u32, rows: u32) -> Result<u32, TaskError> {
    let mut checks = Vec::new();
    for row in 1..=rows {
        let named = format!("row {row}");
        checks.push(try_spawn(async move { check_row(sheet, row).await }).name(named).await);
    }
    gather(checks).await.map(|checked| checked.len() as u32)
}

async fn check_row(sheet: u32, row: u32) -> Result<(), TaskError> {
    sleep(Duration::from_millis(100 * u64::from(row))).await;
    let check = step("check", move || match (sheet, row) {
        (2, 4) => Err(format!("row {row} of sheet {sheet}: the date 2026-02-30 does not exist")),
        _ => Ok(()),
    });
    check.input(&(sheet, row)).retry(Retry::times(2).first(Duration::from_millis(200))).await
}

/// Creates pages, several at a time, and reports progress.
async fn report(pages: u32) -> Result<u32, TaskError> {
    let mut written = 0;
    for first in (1..=pages).step_by(4) {
        let mut tasks = Vec::new();
        for page in first..(first + 4).min(pages + 1) {
            let named = format!("page {page}");
            tasks.push(try_spawn(async move { write_page(page).await }).name(named).await);
        }
        written += gather(tasks).await?.len() as u32;
        progress(u64::from(written), u64::from(pages), "pages").await;
    }
    log(LogLevel::Info, format!("{written} pages are written")).await;
    Ok(written)
}

async fn write_page(page: u32) -> Result<(), TaskError> {
    step_with("write", move |attempt| {
        for part in 1..=3 {
            std::thread::sleep(Duration::from_millis(120));
            attempt.output("stdout", format!("page {page}, part {part}\n"));
        }
        Ok::<_, String>(())
    })
    .input(&page)
    .await
}

/// Does a little work from time to time, forever.
async fn pulse((): ()) -> Result<(), TaskError> {
    for beat in 0_u64.. {
        step("beat", move || Ok::<_, String>(beat)).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
