//! Settings of a runtime and of the runs it starts.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{
    Attributes, BoxCoroutine, End, Env, Events, Handler, Limits, Mode, Policy, Recording, Rules,
    RunConfig, TaskError, Time, Uuid, Value,
};

use tracing::Level;

use crate::activity::hub::Hub;
use crate::calls::context;
use crate::calls::durable_agent::DurableAgent;
use crate::calls::future_task::{FutureTask, Plain};
use crate::clock::Clock;
use crate::control::audit_hook::AuditHook;
use crate::host::chunks::{Chunk, OnChunk};
use crate::host::entropy::Entropy;
use crate::host::inbox::Inbox;
use crate::host::owner_process::OwnerProcess;
use crate::host::pool::{Pool, Threads};
use crate::host::reactor::Reactor;
use crate::host::slots::DEFAULT_SLOTS;
use crate::host::step_watch::StepWatch;
use crate::host::trace::Tracer;
use crate::host::{Host, Pools, Workers};
use crate::program::registry::Registry;
use crate::program::run_limits::RunLimits;
use crate::runtime::Runtime;
use crate::runtime::step_queue::QueueSettings;
use crate::watchdog::{Lines, OnStuck, StuckTask, Watched};
use tiffany_log::RealDisk;
use tiffany_records::RunError;
use tiffany_records::redact::{self, Redactions, shown};
use tiffany_records::retention::Retention;

/// Builds a [`Runtime`].
///
/// ```
/// use tiffany::{Limits, Runtime, ask};
///
/// let mut runtime = Runtime::builder()
///     .env("greeting", "hello".to_string())
///     .limits(Limits { max_tasks: Some(1_000), ..Limits::default() })
///     .build()?;
/// let greeting = runtime.try_run(async { ask::<String>("greeting").await })?;
/// assert_eq!(greeting, "hello");
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct Builder {
    pub(crate) mode: Mode,
    pub(crate) events: Events,
    end: End,
    pub(crate) rules: Rules,
    limits: Limits,
    cancel_grace: Option<Duration>,
    policy: Option<Rc<dyn Fn() -> Box<dyn Policy>>>,
    pub(crate) env: Vec<(String, EnvValue)>,
    handlers: Vec<Rc<dyn Handler>>,
    name: Option<Rc<str>>,
    threads: usize,
    pub(crate) step_slots: usize,
    pub(crate) run_limits: Option<RunLimits>,
    log_dir: Option<PathBuf>,
    pub(crate) only: Option<Uuid>,
    pub(crate) log_settings: tiffany_log::Settings,
    pub(crate) redactions: Option<Arc<Redactions>>,
    pub(crate) audit_hook: Option<Arc<dyn AuditHook>>,
    pub(crate) registry: Registry,
    pub(crate) recording: Recording,
    pub(crate) snapshot_every: u64,
    pub(crate) retention: Vec<Retention>,
    pub(crate) retention_every: Duration,
    pub(crate) queues: BTreeMap<String, QueueSettings>,
    pub(crate) on_chunk: Option<OnChunk>,
    activity: crate::activity::settings::Settings,
    agent_id: String,
    node: String,
    pub(crate) url: Option<String>,
    watchdog: Option<Duration>,
    on_stuck: OnStuck,
    pub(crate) on_unobserved: Rc<dyn Fn(&TaskError)>,
    pub(crate) waiting: Option<crate::host::Waiting>,
    pub(crate) virtual_clock: bool,
}

#[derive(Clone)]
pub(crate) enum EnvValue {
    Known(Value),
    Resolved(Rc<dyn Fn() -> BoxCoroutine>),
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// How many steps may block a thread at once, unless [`step_slots`](Builder::step_slots) sets
    /// another number.
    pub const DEFAULT_STEP_SLOTS: usize = DEFAULT_SLOTS;

    /// The default settings.
    pub fn new() -> Builder {
        Builder {
            mode: Mode::Ephemeral,
            events: Events::Off,
            end: End::AllTasks,
            rules: Rules::default(),
            limits: Limits::default(),
            cancel_grace: None,
            policy: None,
            env: Vec::new(),
            handlers: Vec::new(),
            name: None,
            threads: 4,
            step_slots: DEFAULT_SLOTS,
            run_limits: None,
            log_dir: None,
            only: None,
            log_settings: tiffany_log::Settings::default(),
            redactions: None,
            audit_hook: None,
            registry: Registry::default(),
            recording: Recording::Every,
            snapshot_every: 10_000,
            retention: Vec::new(),
            retention_every: Duration::from_secs(60),
            queues: BTreeMap::new(),
            on_chunk: None,
            activity: crate::activity::settings::Settings::default(),
            agent_id: String::new(),
            node: String::new(),
            url: None,
            watchdog: Some(Duration::from_secs(1)),
            on_stuck: Arc::new(|stuck| match tracing::enabled!(target: "tiffany", Level::WARN) {
                true => tracing::warn!(target: "tiffany", tid = stuck.tid.0, "{}", shown(stuck)),
                false => eprintln!("tiffany: {}", shown(stuck)),
            }),
            waiting: None,
            virtual_clock: false,
            on_unobserved: Rc::new(
                |error| match tracing::enabled!(target: "tiffany", Level::ERROR) {
                    true => tracing::error!(
                        target: "tiffany", code = error.code(),
                        "a task failed and no task waited for it: {}", shown(error),
                    ),
                    false => {
                        eprintln!(
                            "tiffany: a task failed and no task waited for it: {}",
                            shown(error)
                        );
                    }
                },
            ),
        }
    }

    /// Sets when a run ends: with all of its tasks (the default), or with its root.
    pub fn end(mut self, end: End) -> Builder {
        self.end = end;
        self
    }

    /// Sets the limits of a run.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = limits;
        self
    }

    /// Sets how long a cancelled task may take for its cleanup.
    pub fn cancel_grace(mut self, grace: Duration) -> Builder {
        self.cancel_grace = Some(grace);
        self
    }

    /// Sets the order in which ready tasks run, instead of first in, first out. Each run has its
    /// own policy.
    pub fn policy<P: Policy + 'static>(mut self, policy: impl Fn() -> P + 'static) -> Builder {
        self.policy = Some(Rc::new(move || Box::new(policy())));
        self
    }

    /// Adds a key to the environment that all tasks share, for [`ask`](crate::calls::sys::ask).
    pub fn env<T: 'static>(mut self, key: &str, value: T) -> Builder {
        self.env.push((key.into(), EnvValue::Known(Value::new(value))));
        self
    }

    /// Adds a key whose value is computed when it is first asked for, once for all tasks of a run.
    pub fn env_with<F>(mut self, key: &str, find: impl Fn() -> F + 'static) -> Builder
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let find = Rc::new(find);
        let start = move || -> BoxCoroutine {
            // Called inside the task, so that a panic in it is the task's.
            let find = Rc::clone(&find);
            Box::pin(FutureTask::<_, Plain>::new(async move { find().await }))
        };
        self.env.push((key.into(), EnvValue::Resolved(Rc::new(start))));
        self
    }

    /// Adds a handler around the root, outside the handlers that were added before.
    pub fn handler(mut self, handler: impl Handler + 'static) -> Builder {
        self.handlers.push(Rc::new(handler));
        self
    }

    /// Sets the name of the root task.
    pub fn name(mut self, name: &str) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Sets the number of threads for blocking work, such as [`blocking`](crate::blocking()) and
    /// files; 4 by default. Steps have threads of their own: the same number is kept ready for
    /// them, and more are started while steps wait for one, up to
    /// [`step_slots`](Builder::step_slots).
    pub fn blocking_threads(mut self, threads: usize) -> Builder {
        self.threads = threads;
        self
    }

    /// Sets how many attempts at steps may block a thread at the same time; 1,024 by default, and
    /// at least one. A step that finds no free slot waits for one: its attempt is not recorded as
    /// started, and its timeout does not count yet. An attempt that was abandoned keeps its slot
    /// until its work returns. Steps that are futures
    /// ([`step_async`](crate::calls::step::step_async)) need no slot.
    pub fn step_slots(mut self, slots: usize) -> Builder {
        self.step_slots = slots;
        self
    }

    /// Sets what one durable run may use before it is held; by default nothing is limited.
    /// [`RunLimits`] describes what holding means.
    pub fn run_limits(mut self, limits: RunLimits) -> Builder {
        self.run_limits = Some(limits);
        self
    }

    /// Sets the name of the agent in the spans of log output.
    pub fn agent_id(mut self, agent_id: &str) -> Builder {
        self.agent_id = agent_id.into();
        self
    }

    /// Sets the name of this machine in the spans of log output.
    pub fn node(mut self, node: &str) -> Builder {
        self.node = node.into();
        self
    }

    /// Sets the network address of this runtime, which its
    /// [status](tiffany_records::request::Status) reports.
    pub fn url(mut self, url: &str) -> Builder {
        self.url = Some(url.into());
        self
    }

    /// Sets how long a task may run without a call before that is reported; `None`: it is never
    /// reported.
    pub fn watchdog(mut self, patience: Option<Duration>) -> Builder {
        self.watchdog = patience;
        self
    }

    /// Calls a function when a task has kept its turn for too long, on a thread of its own, once
    /// for each such turn. By default such a turn is logged, or written to standard error if
    /// nothing is logged.
    pub fn on_stuck(mut self, show: impl Fn(&StuckTask) + Send + Sync + 'static) -> Builder {
        self.on_stuck = Arc::new(show);
        self
    }

    /// Calls a function with each failure that no task waited for, at the end of its run. By
    /// default the failure is logged, or written to standard error if nothing is logged.
    pub fn on_unobserved(mut self, show: impl Fn(&TaskError) + 'static) -> Builder {
        self.on_unobserved = Rc::new(show);
        self
    }

    /// Sets the directory of the log of durable runs. Unfinished runs in it are resumed when the
    /// runtime is built.
    pub fn log_dir(mut self, dir: impl Into<PathBuf>) -> Builder {
        self.log_dir = Some(dir.into());
        self
    }

    /// The rules that remove secrets from everything that is reported about runs, if there are any.
    #[doc(hidden)]
    pub fn redactions(&self) -> Option<&Arc<Redactions>> {
        self.redactions.as_ref()
    }

    /// The functions that are registered.
    #[doc(hidden)]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The directory of the log of durable runs, if it is set.
    #[doc(hidden)]
    pub fn given_log_dir(&self) -> Option<&std::path::Path> {
        self.log_dir.as_deref()
    }

    /// Builds the runtime without a log: no run is resumed, and nothing is recorded.
    #[doc(hidden)]
    pub fn without_log(mut self) -> Builder {
        self.log_dir = None;
        self
    }

    /// Resumes only this run of all unfinished ones in the log: a fork, for example, that may do
    /// only what it was allowed. The others stay as they are; they find messages that are sent to
    /// them when they are resumed.
    pub fn only(mut self, run: Uuid) -> Builder {
        self.only = Some(run);
        self
    }

    /// Sets how the log is kept.
    pub fn log_settings(mut self, settings: tiffany_log::Settings) -> Builder {
        self.log_settings = settings;
        self
    }

    /// Removes secrets from everything that the runtime writes: see [`Redactions`]. Runs work with
    /// the real values; values that are read from the log have placeholders. May be called more
    /// than once.
    ///
    /// ```
    /// use tiffany::Runtime;
    /// use tiffany::redact::Redactions;
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-redact-{}", std::process::id()));
    /// let rules = Redactions::new().field("password")?.pattern("sk-[a-z0-9]{8,}")?;
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .redact(rules)
    ///     .register("length", async |key: String| Ok::<_, String>(key.len()))
    ///     .build()?;
    /// let run = runtime.submit::<usize>("length", "length-1", &"sk-12345678")?;
    /// assert_eq!(runtime.wait_for(&run)?, 11);
    /// drop(runtime);
    /// let log = std::fs::read_to_string(dir.join(format!("wal/{}.wal", run.uuid())))?;
    /// assert!(log.contains(r#""input":"[redacted]""#));
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redact(mut self, rules: Redactions) -> Builder {
        let so_far = self.redactions.take().map_or(Redactions::new(), |so_far| (*so_far).clone());
        self.redactions = Some(Arc::new(so_far.and(rules))).filter(|rules| !rules.is_empty());
        self
    }

    /// Sets which calls of durable runs are recorded: every call, for a complete history, or only
    /// those that concern the outside world, which is enough to resume a run.
    pub fn record_outward_only(mut self) -> Builder {
        self.recording = Recording::Outward;
        self
    }

    /// Adds a queue for steps, which select it with
    /// [`Step::queue`](crate::calls::step::Step::queue).
    pub fn queue(mut self, name: &str, settings: QueueSettings) -> Builder {
        self.queues.insert(name.into(), settings);
        self
    }

    /// Calls a function with the partial results that steps show with
    /// [`Attempt::chunk`](crate::host::attempt::Attempt::chunk), on a thread of its own. If it is too slow, the oldest
    /// chunks are lost, and the next one has their number; no step waits for it.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use tiffany::Runtime;
    /// use tiffany::durable::{StepError, step_with};
    ///
    /// let (sender, shown) = mpsc::channel();
    /// let mut runtime = Runtime::builder()
    ///     .on_chunk(move |chunk| drop(sender.send(chunk.value::<String>())))
    ///     .build()?;
    /// runtime.try_run(async {
    ///     step_with("talk", |attempt| {
    ///         for word in ["to", "be"] {
    ///             attempt.chunk(&word)?;
    ///         }
    ///         Ok::<_, StepError>(2)
    ///     })
    ///     .await
    /// })?;
    /// assert_eq!(shown.recv().unwrap()?, "to");
    /// assert_eq!(shown.recv().unwrap()?, "be");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_chunk(mut self, watch: impl Fn(&Chunk) + Send + Sync + 'static) -> Builder {
        self.on_chunk = Some(Arc::new(watch));
        self
    }

    /// Sets how many [events](crate::pal) are kept for readers that start later.
    pub fn activity(mut self, settings: crate::activity::settings::Settings) -> Builder {
        self.activity = settings;
        self
    }

    /// Registers a function that durable runs can be started from, by name, with a serializable
    /// input and output.
    #[track_caller]
    pub fn register<I, O, E, F, R>(mut self, name: &str, function: F) -> Builder
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        E: Display + 'static,
        F: Fn(I) -> R + 'static,
        R: Future<Output = Result<O, E>> + 'static,
    {
        self.registry.add(name, function);
        self
    }

    /// Describes a function and its input, as a JSON Schema: the daemon shows it to people who
    /// start runs, and refuses an input that does not match. (It checks types, members, lists,
    /// bounds and choices of JSON Schema, and ignores the rest.)
    ///
    /// ```
    /// use serde_json::json;
    /// use tiffany::{Runtime, TaskError};
    ///
    /// let builder = Runtime::builder()
    ///     .register("greet", |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) })
    ///     .describe("greet", "Says hello.", json!({ "type": "string", "minLength": 1 }));
    /// let runtime = builder.build()?;
    /// assert_eq!(runtime.status().functions[0].doc.as_deref(), Some("Says hello."));
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn describe(mut self, name: &str, doc: &str, input: serde_json::Value) -> Builder {
        self.registry.describe(name, doc, input);
        self
    }

    /// Registers a function that makes a serializable state machine, the root of a run, from its input.
    #[track_caller]
    pub fn register_agent<I, A, F>(mut self, name: &str, function: F) -> Builder
    where
        I: DeserializeOwned + 'static,
        A: DurableAgent,
        F: Fn(I) -> A + 'static,
    {
        self.registry.add_agent(name, function);
        self
    }

    /// Registers a kind of state machine for tasks of such runs that are not roots: after a restart they are made again
    /// from its [name](DurableAgent::NAME).
    pub fn agent<A: DurableAgent>(mut self) -> Builder {
        self.registry.add_kind::<A>();
        self
    }

    /// Sets the number of records after which the log of a run of [state machines](DurableAgent) starts again with a
    /// snapshot: 10,000 by default, 0 for never. The snapshot is taken when the run next waits.
    pub fn snapshot_every(mut self, records: u64) -> Builder {
        self.snapshot_every = records;
        self
    }

    /// Sets how long finished durable runs are kept. The rules are applied in the background when
    /// the runtime is built, and then [regularly](Builder::retention_every). May be called more
    /// than once: a run is removed if any rule removes it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tiffany::Runtime;
    /// use tiffany::retention::Retention;
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-rule-{}", std::process::id()));
    /// let day = Duration::from_secs(86_400);
    /// let runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .retention(Retention::new().compact_after(day).older_than(30 * day))
    ///     .build()?;
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn retention(mut self, rule: Retention) -> Builder {
        self.retention.push(rule);
        self
    }

    /// Sets a hook that is called for each change that other processes request through the socket
    /// in the log directory: for an audit, for example.
    pub fn audit_hook(mut self, audit_hook: Arc<dyn AuditHook>) -> Builder {
        self.audit_hook = Some(audit_hook);
        self
    }

    /// Sets how often the rules about finished runs are applied; every minute by default.
    pub fn retention_every(mut self, time: Duration) -> Builder {
        self.retention_every = time;
        self
    }

    /// Builds the runtime.
    pub fn build(self) -> Result<Runtime, RunError> {
        let clock = Clock::system();
        match (self.virtual_clock, &self.log_dir) {
            (false, _) => self.build_with(clock, Entropy::System),
            (true, Some(_)) => {
                self.build_with(Clock::Virtual(Cell::new(clock.now())), Entropy::System)
            }
            (true, None) => {
                let clock = Clock::Virtual(Cell::new(Time::ZERO));
                self.build_with(clock, Entropy::Counted(Cell::new(0)))
            }
        }
    }

    pub(crate) fn build_with(self, clock: Clock, entropy: Entropy) -> Result<Runtime, RunError> {
        let (threads, slots, steady) = (self.threads, self.step_slots, clock.steady());
        let workers = |inbox: Arc<Inbox>| {
            let blocking = Pool::new(Threads::fixed(threads), Arc::clone(&inbox), steady.clone());
            let steps = Pool::new(Threads { ready: threads, most: slots }, inbox, steady);
            Workers::Threads(Pools { blocking, steps })
        };
        let (mut runtime, log_dir) = self.build_host(clock, entropy, workers)?;
        if let Some(dir) = log_dir {
            // A step may change the working directory.
            let dir = std::path::absolute(&dir).unwrap_or(dir);
            runtime.open_log(dir, Arc::new(RealDisk), None)?;
        }
        Ok(runtime)
    }

    /// A runtime whose log is not open yet, and the directory of that log.
    pub(crate) fn build_host(
        self,
        clock: Clock,
        entropy: Entropy,
        workers: impl FnOnce(Arc<Inbox>) -> Workers,
    ) -> Result<(Runtime, Option<PathBuf>), RunError> {
        crate::host::panics::note_where(crate::calls::context::labels_of_turn);
        self.redactions.iter().for_each(redact::install);
        let reactor = Reactor::new().map_err(|error| RunError::system("a reactor", &error))?;
        let inbox = Arc::new(Inbox::new(reactor.bell()));
        let workers = workers(Arc::clone(&inbox));
        if let Workers::Inline(_) = workers {
            inbox.work_inline();
        }
        let tracer = Tracer::new(self.agent_id.clone(), self.node.clone());
        let questions = Default::default();
        let rules = self.redactions.clone();
        let hub = Hub::new(self.activity.clone(), entropy.epoch(), clock.steady(), rules);
        drop(inbox.meters.hub.set(hub.clone()));
        let reactor = reactor.into();
        let process = OwnerProcess::current();
        let host =
            Host { process, clock, inbox, reactor, workers, entropy, tracer, hub, questions };
        let watched = self.watchdog.map(|patience| {
            let pulse = context::with(|context| context.pulse());
            let (stuck, show) = (Arc::clone(&host.inbox.meters.stuck), Arc::clone(&self.on_stuck));
            let on_stuck: OnStuck = Arc::new(move |task| {
                stuck.add(1);
                show(task);
            });
            let turns = Arc::clone(&host.inbox.meters.long_turns);
            let of_steps = StepWatch::new(patience, Arc::clone(&on_stuck), Arc::clone(&turns));
            drop(host.inbox.step_watch.set(of_steps));
            // In another language the lines of Rust tell nothing.
            let lines = if self.waiting.is_none() { Lines::Tell } else { Lines::Mislead };
            Arc::new(Watched::new(pulse, patience, on_stuck, (turns, lines)))
        });
        let log_dir = self.log_dir.clone();
        Ok((Runtime::with_host(host, self, watched), log_dir))
    }

    /// The settings of a new run.
    pub(crate) fn run_config(&self, started_at: &'static Location<'static>) -> RunConfig {
        let mut env = Env::new();
        for (key, value) in &self.env {
            match value {
                EnvValue::Known(value) => env.set(key, value.clone()),
                EnvValue::Resolved(start) => {
                    let start = Rc::clone(start);
                    env.set_with(key, move || start());
                }
            }
        }
        RunConfig {
            mode: self.mode,
            end: self.end,
            rules: self.rules,
            policy: self.policy.as_ref().map(|make| make()),
            limits: self.limits,
            deadline: None,
            attributes: Attributes::default(),
            cancel_grace: self.cancel_grace,
            env,
            handlers: self.handlers.clone(),
            name: self.name.clone(),
            events: self.events,
            recording: Recording::Off,
            seed: 0,
            started_at,
        }
    }
}
