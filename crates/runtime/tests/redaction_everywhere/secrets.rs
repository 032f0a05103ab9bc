//! The secrets: another one for each place, so that a leak says where it is from.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};
use tiffany::redact::Redactions;

/// Where a secret is put.
pub(crate) const PLACES: &[&str] = &[
    "answer",
    "blob_argument",
    "blob_field",
    "blob_result",
    "checkpoint",
    "continued",
    "decided",
    "fork_reply",
    "input",
    "input_field",
    "label",
    "log_debug",
    "log_field",
    "log_line",
    "log_span",
    "machine_state",
    "machine_store",
    "member_name",
    "message",
    "message_sent",
    "message_waiting",
    "number",
    "output",
    "pal_log",
    "pal_output",
    "pal_progress",
    "pal_stage",
    "pal_step",
    "pal_stream",
    "panic_of_step",
    "panic_of_task",
    "promise",
    "promise_error",
    "quoted",
    "run_error",
    "said_error",
    "step_argument",
    "step_error",
    "step_name",
    "step_result",
    "store_key",
    "store_value",
    "task_error",
    "task_name",
    "unobserved",
];

/// The secret of a place. Most are keys that a pattern knows; some stand in a field; some have characters that others escape.
pub(crate) fn secret(place: &str) -> String {
    assert!(PLACES.contains(&place), "{place}");
    let number = PLACES.iter().position(|known| *known == place).unwrap_or_default();
    match place {
        "number" => "4242000000004242".into(),
        "input_field" | "blob_field" | "log_field" | "machine_store" => {
            format!("hunter{number:04}")
        }
        "quoted" | "message" | "run_error" => format!("tok\"{place}\\é\n{number:06}"),
        place => format!("sk-{}-{number:06}", place.replace('_', "")),
    }
}

pub(crate) fn rules() -> Redactions {
    let rules = Redactions::parse(concat!(
        "# what the secrets of this test look like\n",
        "pattern sk-[a-z]+-[0-9]{6}\n",
        "pattern (?s)tok\"[^0-9]{1,40}[0-9]{6}\n",
        "pattern \\b42420000[0-9]{8}\\b\n",
        "field password\n",
    ));
    // In a text they can be found as others write them.
    let rules = rules.and_then(|rules| rules.value(&secret("quoted")));
    let rules = rules.and_then(|rules| rules.value(&secret("message")));
    rules.and_then(|rules| rules.value(&secret("run_error"))).expect("these are rules")
}

/// The places whose secrets stand in these bytes: as they are, as JSON and Rust write them, or in base 64.
pub(crate) fn found_in(bytes: &[u8]) -> BTreeSet<&'static str> {
    static FORMS: LazyLock<(RegexSet, Vec<&str>)> = LazyLock::new(forms);
    let (set, places) = &*FORMS;
    set.matches(bytes).into_iter().map(|form| places[form]).collect()
}

/// How each secret may be written, and the place it belongs to.
fn forms() -> (RegexSet, Vec<&'static str>) {
    let (mut all, mut places) = (Vec::new(), Vec::new());
    for place in PLACES {
        let secret = secret(place);
        let json = serde_json::to_string(&secret).expect("a text can be written");
        let twice = serde_json::to_string(&json).expect("a text can be written");
        let mut forms = vec![
            secret.clone(),
            json[1..json.len() - 1].to_owned(),
            twice[3..twice.len() - 3].to_owned(),
            format!("{secret:?}").trim_matches('"').to_owned(),
        ];
        forms.extend((0..3).map(|before| base64(&secret, before)));
        places.extend(forms.iter().map(|_| *place));
        all.extend(forms.iter().map(|form| regex::escape(form)));
    }
    (RegexSetBuilder::new(all).unicode(false).build().expect("these are texts"), places)
}

/// What stands in base 64 for a text whatever is around it, if so many bytes are before it.
fn base64(text: &str, before: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<bool> = vec![0; before]
        .into_iter()
        .chain(text.bytes())
        .flat_map(|byte: u8| (0..8).rev().map(move |bit| byte >> bit & 1 == 1))
        .collect();
    let sextets = bits.chunks_exact(6).skip((before * 8).div_ceil(6));
    let digit = |bits: &[bool]| bits.iter().fold(0, |number, bit| number << 1 | usize::from(*bit));
    sextets.map(|bits| char::from(DIGITS[digit(bits)])).collect()
}
