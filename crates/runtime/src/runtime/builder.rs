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
    /// How many steps may block a thread at once unless [`step_slots`](Builder::step_slots) says otherwise.
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
                        "a task failed and nobody waited for it: {}", shown(error),
                    ),
                    false => {
                        eprintln!(
                            "tiffany: a task failed and nobody waited for it: {}",
                            shown(error)
                        );
                    }
                },
            ),
        }
    }

    /// When a run is over: with all of its tasks (the default), or with its root.
    pub fn end(mut self, end: End) -> Builder {
        self.end = end;
        self
    }

    /// What a run may use up.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = limits;
        self
    }

    /// How long a cancelled task may take for its cleanup.
    pub fn cancel_grace(mut self, grace: Duration) -> Builder {
        self.cancel_grace = Some(grace);
        self
    }

    /// The order in which ready tasks run, instead of first in first out. Each run has its own.
    pub fn policy<P: Policy + 'static>(mut self, policy: impl Fn() -> P + 'static) -> Builder {
        self.policy = Some(Rc::new(move || Box::new(policy())));
        self
    }

    /// A key of the environment all tasks share, for [`ask`](crate::calls::sys::ask).
    pub fn env<T: 'static>(mut self, key: &str, value: T) -> Builder {
        self.env.push((key.into(), EnvValue::Known(Value::new(value))));
        self
    }

    /// A key that is found out when it is first asked for, once for all tasks of a run.
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

    /// Adds a handler around the root, outside those added before.
    pub fn handler(mut self, handler: impl Handler + 'static) -> Builder {
        self.handlers.push(Rc::new(handler));
        self
    }

    /// The name of the root task.
    pub fn name(mut self, name: &str) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// How many threads there may be for blocking work, such as [`blocking`](crate::blocking()) and files; 4 unless it is
    /// set. Steps have threads of their own: as many are kept ready for them, and more are started while steps wait
    /// for one, up to [`step_slots`](Builder::step_slots).
    pub fn blocking_threads(mut self, threads: usize) -> Builder {
        self.threads = threads;
        self
    }

    /// How many attempts at steps may block a thread at the same time; 1,024 unless it is set, and at least one. A step
    /// that finds no free slot waits for one: its attempt is not recorded as begun, and its timeout does not count yet. An
    /// attempt that was given up holds its slot until its work returns. Steps that are futures
    /// ([`step_async`](crate::calls::step::step_async)) need no slot.
    pub fn step_slots(mut self, slots: usize) -> Builder {
        self.step_slots = slots;
        self
    }

    /// What one durable run may use before it is held; nothing is limited unless it is set. See
    /// [`RunLimits`] for what holding means.
    pub fn run_limits(mut self, limits: RunLimits) -> Builder {
        self.run_limits = Some(limits);
        self
    }

    /// Who works here, for the spans of the log.
    pub fn agent_id(mut self, agent_id: &str) -> Builder {
        self.agent_id = agent_id.into();
        self
    }

    /// Which machine this is, for the spans of the log.
    pub fn node(mut self, node: &str) -> Builder {
        self.node = node.into();
        self
    }

    /// Where others reach this runtime over the network, for those who ask how it [stands](tiffany_records::request::Status).
    pub fn url(mut self, url: &str) -> Builder {
        self.url = Some(url.into());
        self
    }

    /// How long a task may run without a call before that is reported; `None`: for ever.
    pub fn watchdog(mut self, patience: Option<Duration>) -> Builder {
        self.watchdog = patience;
        self
    }

    /// What is done about a task that has kept its turn for too long. By default it is logged, or
    /// written to standard error where nothing is. This is called on a thread of its own, once for each such turn.
    pub fn on_stuck(mut self, show: impl Fn(&StuckTask) + Send + Sync + 'static) -> Builder {
        self.on_stuck = Arc::new(show);
        self
    }

    /// What is done about a failure nobody waited for, at the end of its run. By default it is logged, or
    /// written to standard error where nothing is.
    pub fn on_unobserved(mut self, show: impl Fn(&TaskError) + 'static) -> Builder {
        self.on_unobserved = Rc::new(show);
        self
    }

    /// Where durable runs are written down. Those that are there and unfinished go on when the runtime is built.
    pub fn log_dir(mut self, dir: impl Into<PathBuf>) -> Builder {
        self.log_dir = Some(dir.into());
        self
    }

    /// What is taken out of everything that is told of runs, if anything is.
    #[doc(hidden)]
    pub fn redactions(&self) -> Option<&Arc<Redactions>> {
        self.redactions.as_ref()
    }

    /// The functions that are registered.
    #[doc(hidden)]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where durable runs are to be written down, if that was said.
    #[doc(hidden)]
    pub fn given_log_dir(&self) -> Option<&std::path::Path> {
        self.log_dir.as_deref()
    }

    /// Without a log: nothing is brought back, and nothing is written down.
    #[doc(hidden)]
    pub fn without_log(mut self) -> Builder {
        self.log_dir = None;
        self
    }

    /// Of what is unfinished in the log, only this run goes on: a fork, say, that is to do nothing but what it was allowed. The others are left as they are;
    /// what they are sent they find when they are brought back.
    pub fn only(mut self, run: Uuid) -> Builder {
        self.only = Some(run);
        self
    }

    /// How the log is kept.
    pub fn log_settings(mut self, settings: tiffany_log::Settings) -> Builder {
        self.log_settings = settings;
        self
    }

    /// Takes secrets out of everything that the runtime writes: see [`Redactions`]. Runs work with the real values; what is read back from the log has
    /// placeholders. It may be said more than once.
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

    /// Which calls of durable runs are written down: every one, which makes a log that tells everything, or only
    /// those that concern the world, which is enough to bring a run back.
    pub fn record_outward_only(mut self) -> Builder {
        self.recording = Recording::Outward;
        self
    }

    /// A queue that steps can stand in, by [`Step::queue`](crate::calls::step::Step::queue).
    pub fn queue(mut self, name: &str, settings: QueueSettings) -> Builder {
        self.queues.insert(name.into(), settings);
        self
    }

    /// Who watches what steps show of their work by [`Attempt::chunk`](crate::host::attempt::Attempt::chunk). This is called on a thread of its own. If it is too slow, chunks
    /// are lost, the oldest first, and it is told how many; no step waits for it.
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

    /// How much of [what runs are doing](crate::pal) is remembered for those who watch.
    pub fn activity(mut self, settings: crate::activity::settings::Settings) -> Builder {
        self.activity = settings;
        self
    }

    /// A function that durable runs can be started from, by name, with an input and an output that can be
    /// written down.
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

    /// Says of a function what it is for and what it is given, as a JSON Schema: the daemon shows it to those who start runs, and refuses them what does not
    /// fit. (It knows types, members, lists, bounds and choices of JSON Schema, and passes over the rest.)
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

    /// The same for a function whose root is a state machine that can be written down, made out of its input.
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

    /// A kind of state machine that tasks of such runs are, besides their roots: after a restart they are made again by its
    /// [name](DurableAgent::NAME).
    pub fn agent<A: DurableAgent>(mut self) -> Builder {
        self.registry.add_kind::<A>();
        self
    }

    /// After how many records the log of a run made of [state machines](DurableAgent) begins anew with a snapshot; 10,000 unless it is
    /// set, 0 for never. It is taken when the run next waits.
    pub fn snapshot_every(mut self, records: u64) -> Builder {
        self.snapshot_every = records;
        self
    }

    /// How long durable runs that are over are kept. This is seen to in the background, when the runtime is built and then [now and
    /// then](Builder::retention_every). It may be said more than once: a run is removed if any rule says so.
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

    /// Lets somebody see what other processes ask for through the socket in the log directory, where it changes something: an audit, say.
    pub fn audit_hook(mut self, audit_hook: Arc<dyn AuditHook>) -> Builder {
        self.audit_hook = Some(audit_hook);
        self
    }

    /// How often the rules about old runs are looked at; every minute unless it is set.
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

    /// A runtime whose log is not open yet, and where that is to be.
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

    /// What a new run is told.
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
