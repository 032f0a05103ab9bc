//! Draws the screen: a head with the totals, the table of the current view, and the keys. It fits
//! 80 columns and 24 lines. Control characters from runs are escaped.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clean;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};
use serde_json::Value;
use tiffany::Time;
use tiffany::control::{RunSummary, SortBy, parse_moment};
use tiffany::history::TaskStanding;
use tiffany::units;

use super::gauges::Gauges;
use super::state::{Listed, Mode, Top, View};

pub(super) fn draw(frame: &mut Frame<'_>, top: &mut Top) {
    let [head, middle, said, keys] = Layout::vertical([
        Constraint::Length(3),
        Constraint::Min(3),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines(top)), head);
    match top.view {
        View::Runs => runs(frame, middle, top),
        View::Run(_) => tasks(frame, middle, top),
        View::Task(..) => task(frame, middle, top),
    }
    frame.render_widget(Paragraph::new(said_line(top)), said);
    frame.render_widget(Paragraph::new(dim(top, keys_of(top))), keys);
    if top.mode == Mode::Help {
        help(frame);
    }
}

fn paint(top: &Top, colour: Color, text: impl Into<String>) -> Span<'static> {
    let text = text.into();
    if top.colour { Span::styled(text, Style::new().fg(colour)) } else { Span::raw(text) }
}

fn dim(top: &Top, text: impl Into<String>) -> Span<'static> {
    paint(top, Color::DarkGray, text)
}

fn bold(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

/// Returns the word for a state with a glyph, so that states differ even without colours.
fn state(top: &Top, word: &str) -> Span<'static> {
    let (glyph, colour) = match word {
        "completed" => ('✓', Color::Green),
        "failed" | "damaged" => ('✗', Color::Red),
        "cancelled" | "removed" => ('–', Color::DarkGray),
        "paused" | "held" => ('‖', Color::Yellow),
        "waiting" => ('…', Color::Blue),
        _ => ('●', Color::Cyan),
    };
    paint(top, colour, format!("{glyph} {word}"))
}

fn head_lines(top: &Top) -> Vec<Line<'static>> {
    let who = match (top.is_new, top.picture.pid) {
        (true, _) => "looking …".to_owned(),
        (_, Some(pid)) => format!("process {pid} has it{}", memory(top)),
        (_, None) => "no process owns the directory: this is the content of the log".to_owned(),
    };
    let first = Line::from(vec![
        bold("tiffany watch  "),
        Span::raw(text(&top.dir)),
        dim(top, format!("  {who}")),
    ]);
    match &top.picture.gauges {
        None => vec![first],
        Some(gauges) => [vec![first], gauge_lines(top, gauges)].concat(),
    }
}

/// Formats the memory of the process, if it is reported.
fn memory(top: &Top) -> String {
    let gauges = top.picture.gauges.as_ref();
    gauges.map_or_else(String::new, |gauges| format!(", {}", bytes(gauges.memory)))
}

fn gauge_lines(top: &Top, gauges: &Gauges) -> Vec<Line<'static>> {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    let mut second = format!(
        "runs {:.0} live {:.0} paused · tasks {:.0} ready {:.0} blocked · steps {:.0} running",
        gauges.live, gauges.paused, gauges.ready, gauges.blocked, gauges.effects
    );
    if gauges.in_doubt > 0.0 {
        second.push_str(&format!(" {:.0} in doubt", gauges.in_doubt));
    }
    let took = gauges.commit_seconds.map_or_else(String::new, |s| format!(" ({:.1} ms)", s * 1e3));
    let mut third = format!(
        "/s {} turns {} records {} commits{took} · log {} · disk {} free",
        rate(gauges.turns),
        rate(gauges.records),
        rate(gauges.commits),
        bytes(gauges.log_bytes),
        bytes(gauges.disk_free),
    );
    if gauges.backlog > 1e6 {
        third.push_str(&format!(" · behind {}", bytes(gauges.backlog)));
    }
    if gauges.lost_events > 0.0 {
        third.push_str(&format!(" · {:.0} events lost", gauges.lost_events));
    }
    vec![Line::from(second), Line::from(dim(top, third))]
}

fn bytes(bytes: f64) -> String {
    units::size(bytes.max(0.0) as u64)
}

/// Escapes a text from a run for the terminal.
fn text(text: &str) -> String {
    clean(text).into_owned()
}

fn runs(frame: &mut Frame<'_>, area: Rect, top: &mut Top) {
    let shown = &top.picture.page.runs;
    if shown.is_empty() && !top.is_new {
        let why = match (top.filter.is_empty(), top.listed) {
            (true, Listed::All) => "there are no runs yet",
            _ => "no run is like this; Esc clears the filter, `a` lists others",
        };
        frame.render_widget(Paragraph::new(dim(top, why)), area);
        return;
    }
    let rows = shown.iter().map(|run| {
        Row::new(vec![
            Line::from(state(top, run.state.word())),
            Line::from(text(&run.id)),
            Line::from(text(&run.function)),
            Line::from(run.tasks.to_string()).right_aligned(),
            Line::from(age(run)).right_aligned(),
            Line::from(text(&why(run))),
        ])
    });
    let widths = [
        Constraint::Length(11),
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(5),
        Constraint::Length(7),
        Constraint::Fill(3),
    ];
    let head = ["STATE", "ID", "FUNCTION", "TASKS", "AGE", "WAITS FOR"];
    let table = Table::new(rows, widths);
    chosen(frame, area, top.chosen, &mut top.first, table, &head);
}

/// Draws a table, scrolled so that the selected row is visible.
fn chosen(
    frame: &mut Frame<'_>,
    area: Rect,
    at: usize,
    first: &mut usize,
    table: Table<'_>,
    head: &[&'static str],
) {
    let style = Style::new().add_modifier(Modifier::REVERSED);
    let head = Row::new(head.iter().copied()).style(Style::new().add_modifier(Modifier::BOLD));
    let mut state = TableState::new().with_offset(*first).with_selected(Some(at));
    let table = table.header(head).row_highlight_style(style).column_spacing(1);
    frame.render_stateful_widget(table, area, &mut state);
    *first = state.offset();
}

/// Explains the state of a run.
fn why(run: &RunSummary) -> String {
    match &run.error {
        Some(error) => format!("{} [{}]", error.message, error.code),
        None => run.waits.join(", "),
    }
}

fn age(run: &RunSummary) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Time::from_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    let until = run.ended.as_deref().and_then(parse_moment).unwrap_or(now);
    units::since(&run.started, until)
}

fn title(top: &Top) -> Vec<Line<'static>> {
    let Some(run) = &top.picture.run else { return vec![Line::from(dim(top, "looking …"))] };
    let RunSummary { id, function, uuid, .. } = &run.summary;
    let mut lines = vec![Line::from(vec![
        bold(text(id)),
        Span::raw(format!("  {}  ", text(function))),
        state(top, run.summary.state.word()),
        dim(top, format!("  {}  {uuid}", age(&run.summary))),
    ])];
    match (&run.summary.error, &run.value) {
        (Some(error), _) => {
            let why = format!("{} [{}]", text(&error.message), error.code);
            lines.push(Line::from(paint(top, Color::Red, why)));
        }
        (None, Some(value)) => lines.push(Line::from(format!("value {}", text(value)))),
        (None, None) => {}
    }
    lines
}

fn tasks(frame: &mut Frame<'_>, area: Rect, top: &mut Top) {
    let lines = title(top);
    let [above, below] =
        Layout::vertical([Constraint::Length(lines.len() as u16), Constraint::Min(2)]).areas(area);
    frame.render_widget(Paragraph::new(lines), above);
    let rows: Vec<Row<'static>> = top
        .tasks()
        .into_iter()
        .map(|(task, depth)| {
            let name = task.name.as_deref().unwrap_or_else(|| root_name(top, task));
            Row::new(vec![
                Line::from(format!("{}{} {}", "  ".repeat(depth.min(12)), task.tid, text(name))),
                Line::from(state(top, task.state)),
                Line::from(text(&waits(task))),
            ])
        })
        .collect();
    let widths = [Constraint::Fill(2), Constraint::Length(11), Constraint::Fill(3)];
    let table = Table::new(rows, widths);
    chosen(frame, below, top.chosen, &mut top.first, table, &["TASK", "STATE", "WAITS FOR"]);
}

/// Returns the name of a task without one; the root is named after the run's function.
fn root_name<'a>(top: &'a Top, task: &TaskStanding) -> &'a str {
    let function = top.picture.run.as_ref().map_or("", |run| run.summary.function.as_str());
    if task.parent.is_none() && task.tid == 1 { function } else { "-" }
}

fn waits(task: &TaskStanding) -> String {
    match &task.error {
        Some(error) => format!("{} [{}]", error.message, error.code),
        None => task.waits.iter().map(|wait| wait.what.as_str()).collect::<Vec<_>>().join("; "),
    }
}

fn task(frame: &mut Frame<'_>, area: Rect, top: &mut Top) {
    let mut lines = title(top);
    lines.truncate(1);
    if let Some(task) = top.task() {
        lines.extend(about(top, task));
    }
    let most = (area.height / 2).max(4);
    let [above, below] =
        Layout::vertical([Constraint::Max(most.min(lines.len() as u16)), Constraint::Min(2)])
            .areas(area);
    frame.render_widget(Paragraph::new(lines), above);
    let records = top.picture.run.as_ref().map_or(&[][..], |run| &run.records);
    let rows: Vec<Row<'static>> = records
        .iter()
        .map(|line| {
            let record: Value = serde_json::from_str(line).unwrap_or(Value::Null);
            let word = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
            let time = word("ts").get(11..23).unwrap_or_default().to_owned();
            let call = ["call", "name", "why"].map(word).join(" ");
            Row::new(vec![
                Line::from(record["seq"].to_string()).right_aligned(),
                Line::from(time),
                Line::from(text(&word("type"))),
                Line::from(text(call.trim())),
                Line::from(text(&rest(&record))),
            ])
        })
        .collect();
    let widths = [
        Constraint::Length(7),
        Constraint::Length(12),
        Constraint::Length(14),
        Constraint::Fill(2),
        Constraint::Fill(3),
    ];
    let table = Table::new(rows, widths);
    chosen(
        frame,
        below,
        top.chosen,
        &mut top.first,
        table,
        &["RECORD", "TIME", "TYPE", "CALL", "SAYS"],
    );
}

/// Returns the fields of a record that have no column of their own.
fn rest(record: &Value) -> String {
    const SHOWN: [&str; 10] =
        ["v", "seq", "ts", "type", "task_id", "tid", "crc", "call", "name", "why"];
    let fields = record.as_object().into_iter().flatten();
    let rest = fields.filter(|(name, _)| !SHOWN.contains(&name.as_str()));
    rest.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(" ")
}

/// Describes a task: its state, what it waits for and in which line, and its stack if that was
/// requested.
fn about(top: &Top, task: &TaskStanding) -> Vec<Line<'static>> {
    let name = task.name.as_deref().map_or_else(String::new, |name| format!(" {}", text(name)));
    let spawned = task
        .spawned_at
        .as_deref()
        .map_or_else(String::new, |at| format!("  spawned at {}", text(at)));
    let mut lines = vec![Line::from(vec![
        bold(format!("task {}{name}  ", task.tid)),
        state(top, task.state),
        dim(top, spawned),
    ])];
    for wait in &task.waits {
        lines.push(Line::from(format!("  {}  at {}", text(&wait.what), text(&wait.at))));
    }
    if let Some(error) = &task.error {
        let red = |line: String| Line::from(paint(top, Color::Red, format!("  {}", text(&line))));
        // The message and the place come first: a narrow screen has no room for more.
        let message = format!("{} [{}]", error.message, error.code);
        lines.extend(message.lines().map(|line| red(line.to_owned())));
        let raised = error.raised_at.iter().map(|at| format!("raised at {at}"));
        let called = error.at.iter().map(|at| format!("called at {at}"));
        let through = error.hops.iter().map(u64::to_string).collect::<Vec<_>>();
        let through = (!through.is_empty()).then(|| format!("through task {}", through.join(", ")));
        lines.extend(raised.chain(called).chain(through).map(red));
    }
    match (&top.stack, top.is_replaying) {
        (_, true) => lines.push(Line::from(dim(top, "  its stack: a replay is running …"))),
        (None, false) => {}
        (Some(Err(why)), _) => {
            lines.push(Line::from(dim(top, format!("  no stack: {}", text(why)))))
        }
        (Some(Ok(told)), _) => lines.extend(frames(top, task.tid, told)),
    }
    lines
}

fn frames(top: &Top, tid: u64, told: &Value) -> Vec<Line<'static>> {
    let tasks = told["tasks"].as_array().cloned().unwrap_or_default();
    let Some(task) = tasks.iter().find(|task| task["tid"] == tid) else {
        return vec![Line::from(dim(top, "  no stack: the task has ended"))];
    };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = vec![Line::from(dim(top, "  stack, as a replay has it"))];
    for frame in task["frames"].as_array().into_iter().flatten() {
        let (function, file) = (word(&frame["function"]), word(&frame["file"]));
        let place = format!("    {} at {}:{}", text(&function), text(&file), frame["line"]);
        lines.push(Line::from(place));
        for (name, value) in frame["locals"].as_object().into_iter().flatten() {
            let told = format!("      {} = {}", text(name), text(&word(value)));
            lines.push(Line::from(dim(top, told)));
        }
    }
    if lines.len() == 1 {
        let at = word(&task["waits_at"]);
        lines.push(Line::from(format!("    {} at {}", text(&word(&task["waits_for"])), text(&at))));
    }
    lines
}

fn said_line(top: &Top) -> Line<'static> {
    match &top.mode {
        Mode::Type => Line::from(format!("filter: {}▏", text(&top.filter))),
        Mode::Sure(_, id) => Line::from(paint(
            top,
            Color::Yellow,
            format!("cancel `{}`? y / any other key: no", text(id)),
        )),
        _ => match &top.picture.said {
            Some(said) => Line::from(paint(top, Color::Yellow, said.clone())),
            None => Line::from(dim(top, listed(top))),
        },
    }
}

fn listed(top: &Top) -> String {
    if top.view != View::Runs {
        return String::new();
    }
    let what = match top.listed {
        Listed::All => "all runs",
        Listed::GoOn => "live runs",
        Listed::Failed => "runs that failed or can't continue",
    };
    let by = match top.sort {
        SortBy::Started => "started",
        SortBy::Ended => "ended",
        SortBy::Id => "id",
        SortBy::Function => "function",
    };
    let (shown, total) = (top.picture.page.runs.len(), top.picture.page.total);
    let filter = Some(&top.filter).filter(|filter| !filter.is_empty());
    let filter = filter.map_or_else(String::new, |filter| format!(", with `{}`", text(filter)));
    format!("{shown} of {total}: {what}{filter}, by {by}")
}

fn keys_of(top: &Top) -> &'static str {
    match (&top.mode, top.view) {
        (Mode::Type, _) => "Enter keeps it  Esc clears it",
        (_, View::Runs) => {
            "↑↓ choose  Enter tasks  / filter  a which  s sort  c cancel  ? help  q quit"
        }
        (_, View::Run(_)) => {
            "↑↓ choose  Enter records  t stacks  c cancel  Esc back  ? help  q quit"
        }
        (_, View::Task(..)) => "↑↓ records  t stack  c cancel  Esc back  ? help  q quit",
    }
}

const HELP: &str = "\
↑ ↓ PgUp PgDn g G   choose a row          Enter →   look into it
Esc ←               back                  /         filter by a text
a   all runs, live runs, failed or paused runs
s   sort by start, end, id, function
t   where tasks stand in their code: a replay in a process of its own
c   cancel a run (asks first)             q         quit

Any key closes this.";

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = 76.min(area.width);
    let height = (HELP.lines().count() as u16 + 2).min(area.height);
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let text = Paragraph::new(HELP).wrap(Wrap { trim: false });
    frame.render_widget(text.block(Block::bordered().title(bold(" keys "))), place);
}
