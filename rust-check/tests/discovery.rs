//! What a router dials: our own plan against every vector, and routers that dial wrongly.

use loadwire_check::conformance::{
    self, Deviation, Dialled, NotDialled, PlanAnswer, Question, UrlCredentials,
};
use loadwire_check::discovery::{plan, KvEvents, NoPlan, NoPlanReason, Plan, Value};
use loadwire_check::table::{PlanRuling, PlanVerdict, PLANS};

fn block() -> KvEvents<'static> {
    KvEvents { load_endpoint_port_base: 5559.into(), load_topic: "load".into(), dp_size: 1.into() }
}

/// The host of a URL is dialled as it stands, in lower case, and a zone keeps its sign.
#[test]
fn hosts_are_taken_from_urls() {
    let urls = [
        ("http://h", "h"),
        ("HTTP://Worker-1.Example:80", "worker-1.example"),
        ("grpc+tls://a_b:1/x", "a_b"),
        ("http://h:", "h"),
        ("http://[fe80::1%25eth0]:1", "[fe80::1%eth0]"),
        ("http://[FE80::1%25Eth0]:1", "[fe80::1%Eth0]"),
        ("http://[FE80::1]:1", "[fe80::1]"),
        ("http://0x10", "0x10"),
    ];
    for (url, host) in urls {
        assert_eq!(plan(url, Some(&block())).map(|plan| plan.host).as_deref(), Ok(host));
    }
}

/// A URL from which no host can be told is refused, with the URL and a good one in the text.
#[test]
fn bad_urls_are_refused() {
    let urls = [
        "h:30000",
        "://h",
        "1http://h",
        "http://h:x",
        "http://h:65536",
        "http://h:+1",
        "http://[::1]x:1",
        "http://[::ffff:0.0.0.0]:1",
        "http://0:1",
        "http://0x0.0:1",
        "http://h h:1",
        "http://h\n:1",
        "http://[fe80::1%25]:1",
        "http://ü:1",
        "http://x[::1]",
    ];
    for url in urls {
        let none = plan(url, Some(&block())).expect_err(url);
        assert_eq!(none.reason, NoPlanReason::BadUrl, "{url}");
        assert!(none.text.ends_with("a worker URL looks like http://10.0.0.5:30000"), "{none}");
    }
}

/// A topic that is not the contract's is another contract, whatever its type.
#[test]
fn another_topic_is_refused() {
    for topic in [Value::Text("kv"), Value::Text("load "), Value::Null, Value::List, 1.into()] {
        let none = plan("http://h:1", Some(&KvEvents { load_topic: topic, ..block() }));
        let none = none.expect_err("no plan");
        assert_eq!(none.reason, NoPlanReason::BadTopic, "{topic:?}");
        assert!(none.text.contains(&format!("load_topic is {topic}, not \"load\"")), "{none}");
    }
}

/// What is wrong with a URL is told: a rank suffix reads as a host behind a user.
#[test]
fn a_refused_url_is_explained() {
    let texts = [
        ("http://10.0.0.5:30000@1", "has an @ before its path"),
        ("http://2001:db8::5:30000", "an IPv6 host goes in brackets"),
        ("10.0.0.5:30000", "has no scheme"),
        ("http://:30000", "has no host"),
        ("http://*:1", "has a wildcard host"),
    ];
    for (url, text) in texts {
        let none = plan(url, Some(&block())).expect_err(url);
        assert!(none.text.starts_with(&format!("{url:?} ")) && none.text.contains(text), "{none}");
    }
}

/// However many ranks a worker claims, there are no more endpoints than ports, and the rest is
/// told to the operator.
#[test]
fn ranks_past_the_last_port_are_skipped() {
    let claims = KvEvents { dp_size: Value::Integer(i128::MAX), ..block() };
    let plan = plan("http://h:1", Some(&claims)).expect("a plan");
    assert_eq!(plan.endpoints.len(), 65535 - 5559 + 1);
    assert_eq!(plan.skipped, 59977..u64::MAX);
    let warning = plan.warning().expect("a warning");
    assert!(warning.contains("ranks 59977 to") && warning.contains("65535"), "{warning}");
    assert_eq!(
        Plan { skipped: 1..2, ..plan.clone() }.warning().map(|w| w.contains("rank 1 ")),
        Some(true)
    );
    assert_eq!(Plan { skipped: 2..2, ..plan }.warning(), None);
}

/// Our plan answers every vector, in full: endpoints, skipped ranks and reasons.
#[test]
fn every_plan_vector_holds() {
    for vector in PLANS {
        let (PlanVerdict::Ruled(ruling) | PlanVerdict::Credentials { refuse: ruling, .. }) =
            vector.expect;
        let ours = plan(vector.worker_url, vector.block.as_ref());
        match ruling {
            PlanRuling::Nothing(reason) => {
                assert_eq!(ours.map_err(|none| none.reason), Err(reason), "{}", vector.id);
            }
            PlanRuling::Dial { endpoints, skipped } => {
                let ours = ours.unwrap_or_else(|none| panic!("{}: {none}", vector.id));
                assert!(ours
                    .endpoints
                    .iter()
                    .map(|at| at.endpoint.as_str())
                    .eq(endpoints.iter().copied()));
                assert!(ours.endpoints.iter().map(|at| at.rank).eq(0..endpoints.len() as u32));
                assert!(ours.skipped.clone().eq(skipped.iter().copied()), "{}", vector.id);
                assert_eq!(ours.dp_size, (endpoints.len() + skipped.len()) as u64);
            }
        }
    }
}

/// The text of a block and its parsed values are the same block.
#[test]
fn the_text_is_the_block() {
    use serde_json::Value as Json;

    for vector in PLANS {
        let parsed: Json = serde_json::from_str(vector.json).expect(vector.id);
        let value = |key: &str| match parsed.get(key) {
            None => "missing".to_owned(),
            Some(Json::Array(_)) => "an array".to_owned(),
            Some(Json::Object(_)) => "an object".to_owned(),
            Some(other) => other.to_string(),
        };
        assert_eq!(parsed.is_null(), vector.block.is_none());
        let Some(block) = vector.block else { continue };
        assert_eq!(block.load_endpoint_port_base.to_string(), value("load_endpoint_port_base"));
        assert_eq!(block.load_topic.to_string(), value("load_topic"));
        assert_eq!(block.dp_size.to_string(), value("dp_size"));
    }
}

fn ours(asked: &Question) -> Result<Plan, NoPlan> {
    plan(asked.worker_url, asked.block.as_ref())
}

/// Our plan conforms, whatever a router's function answers with, reasons or none.
#[test]
fn our_plan_conforms() {
    let suite = conformance::plans().url_credentials(UrlCredentials::Refuse);
    let report = suite.run(ours);
    report.assert_conformant();
    assert_eq!(report.total().passed, PLANS.len());
    suite.run(|asked| ours(asked).map_err(|none| none.reason)).assert_conformant();
    suite.run(|asked| ours(asked).map_err(|none| none.text)).assert_conformant();
    suite.run(|asked| ours(asked).ok()).assert_conformant();
    let list = |asked: &Question| -> Vec<String> {
        let endpoints = ours(asked).map(|plan| plan.endpoints).unwrap_or_default();
        endpoints.into_iter().map(|at| at.endpoint).collect()
    };
    suite.run(list).assert_conformant();
    let backwards = |asked: &Question| {
        let plan = ours(asked).ok()?;
        let ranks = plan.endpoints.into_iter().rev();
        Some(Dialled::by_rank(ranks.map(|at| (at.rank.into(), at.endpoint))))
    };
    suite.run(backwards).assert_conformant();
}

/// A router that has not said what it does with a URL that has a user in it is told what to declare.
#[test]
fn url_credentials_are_declared() {
    let report = conformance::plans().run(ours);
    assert!(report.failures().is_empty());
    assert!(report.problems()[0].contains(".url_credentials(UrlCredentials::Refuse)"), "{report}");

    let without_user = |asked: &Question| {
        let url = match asked.worker_url.split_once("user").map(|(_, rest)| rest.split_once('@')) {
            Some(Some((_, host))) => format!("http://{host}"),
            _ => asked.worker_url.to_owned(),
        };
        plan(&url, asked.block.as_ref())
    };
    let report = conformance::plans().run(without_user);
    assert!(report.problems()[0].contains(".url_credentials(UrlCredentials::Dial)"), "{report}");
    conformance::plans()
        .url_credentials(UrlCredentials::Dial)
        .run(without_user)
        .assert_conformant();
    let report = conformance::plans().url_credentials(UrlCredentials::Refuse).run(without_user);
    assert!(report.failures().iter().all(|failure| failure.deviation == Deviation::Accepts));
    assert_eq!(report.total().failed, 2);
}

fn integer(value: Value) -> Option<i128> {
    match value {
        Value::Integer(value) => Some(value),
        Value::Bool(value) => Some(value.into()),
        _ => None,
    }
}

/// Each way to dial wrongly is caught by the rule that it breaks, and the report shows what was
/// asked, what is right and what came.
#[test]
fn wrong_plans_are_caught() {
    type Router = fn(&Question) -> Option<Vec<String>>;
    fn dialled(asked: &Question) -> Option<Vec<String>> {
        Some(ours(asked).ok()?.endpoints.into_iter().map(|at| at.endpoint).collect())
    }
    fn changed(asked: &Question, change: fn(&mut KvEvents<'static>)) -> Option<Vec<String>> {
        let mut block = asked.block;
        block.as_mut().map(change);
        dialled(&Question { block, ..*asked })
    }
    let wrong: &[(&str, Router, &str, Deviation)] = &[
        (
            "dials where KV events are",
            |asked| {
                let found = asked.json.split_once("\"endpoint_host\": \"");
                let host = found.map(|(_, rest)| rest.split('"').next().unwrap_or_default());
                dialled(asked).map(|endpoints| {
                    let port = |endpoint: &String| endpoint.rsplit(':').next().map(str::to_owned);
                    let ports = endpoints.iter().filter_map(port);
                    ports.map(|port| format!("tcp://{}:{port}", host.unwrap_or("*"))).collect()
                })
            },
            "C1",
            Deviation::WrongPlan,
        ),
        (
            "derives the port",
            |asked| changed(asked, |block| block.load_endpoint_port_base = 5559.into()),
            "C1",
            Deviation::WrongPlan,
        ),
        (
            "needs no topic",
            |asked| changed(asked, |block| block.load_topic = "load".into()),
            "A2",
            Deviation::Accepts,
        ),
        (
            "one rank where there is no number",
            |asked| {
                changed(asked, |block| {
                    block.dp_size = integer(block.dp_size).map_or(1.into(), Value::Integer);
                })
            },
            "C1",
            Deviation::Accepts,
        ),
        (
            "wraps ports around",
            |asked| {
                let block = asked.block?;
                let base = integer(block.load_endpoint_port_base)? as u16;
                let plan = ours(asked).ok()?;
                let ports = (0..plan.dp_size).map(|rank| base.wrapping_add(rank as u16));
                Some(ports.map(|port| format!("tcp://{}:{port}", plan.host)).collect())
            },
            "C1",
            Deviation::WrongPlan,
        ),
        (
            "loses the brackets",
            |asked| {
                let bare = |endpoint: String| endpoint.replace(['[', ']'], "");
                Some(dialled(asked)?.into_iter().map(bare).collect())
            },
            "A3",
            Deviation::WrongPlan,
        ),
        (
            "panics without a block",
            |asked| Some(vec![format!("{:?}", asked.block.expect("a block").dp_size)]),
            "C1",
            Deviation::Panics,
        ),
    ];
    for (name, router, rule, deviation) in wrong {
        let report = conformance::plans().url_credentials(UrlCredentials::Refuse).run(router);
        let caught =
            report.failures().iter().find(|f| f.rule == *rule && f.deviation == *deviation);
        let caught =
            caught.unwrap_or_else(|| panic!("{name}: no {deviation:?} of {rule}\n{report}"));
        let text = caught.to_string();
        for part in [caught.vector, "expected dial", "got      ", "worker   http", "kv_events "] {
            assert!(text.contains(part), "{name}: {part}\n{text}");
        }
    }
}

/// A wrong reason is a failure of its own, and a plan that is refused by mistake shows the error.
#[test]
fn reasons_are_compared() {
    let suite = conformance::plans().url_credentials(UrlCredentials::Refuse);
    let report = suite.run(|asked| ours(asked).map_err(|_| NoPlanReason::NoBlock));
    assert!(report.failures().iter().all(|f| f.deviation == Deviation::WrongReason));
    assert!(report.failures().len() > 20, "{report}");
    let report = suite.run(|_| Err::<Vec<String>, _>("no route to it"));
    let text = report.failures()[0].to_string();
    assert!(text.contains("got      dial nothing (no route to it)"), "{text}");
    assert!(report.failures().iter().all(|failure| failure.deviation == Deviation::Rejects));
}

/// The right endpoints for the wrong ranks are a wrong plan, and the report says which rank has which.
#[test]
fn endpoints_belong_to_ranks() {
    let suite = conformance::plans().url_credentials(UrlCredentials::Refuse);
    let report = suite.run(|asked| {
        let plan = ours(asked).ok()?;
        let endpoints = plan.endpoints.into_iter().rev().map(|at| at.endpoint);
        Some(endpoints.collect::<Vec<_>>())
    });
    assert!(report.failures().iter().any(|failure| failure.vector == "plan-ipv4"));
    let report = suite.run(|asked| {
        let plan = ours(asked).ok()?;
        Some(Dialled::by_rank(
            plan.endpoints.into_iter().map(|at| (at.rank as u64 + 1, at.endpoint)),
        ))
    });
    let text = report.failures()[0].to_string();
    assert!(text.contains("tcp://10.0.0.5:5560 for rank 2"), "{text}");
}

/// Every kind of error that a router's function may have is an answer.
#[test]
fn every_error_is_an_answer() {
    use std::error::Error;

    let answers: [PlanAnswer; 6] = [
        Err::<Vec<String>, _>(()).into(),
        Err::<Vec<String>, _>("text").into(),
        Err::<Vec<String>, _>(Box::<dyn Error>::from("boxed")).into(),
        Err::<Vec<String>, _>(Box::<dyn Error + Send + Sync>::from("sent")).into(),
        None::<Vec<String>>.into(),
        Err::<Vec<String>, _>(NoPlanReason::BadUrl).into(),
    ];
    assert!(answers.iter().all(|answer| matches!(answer, PlanAnswer::Nothing(_))));
    assert_eq!(NotDialled::from(NoPlanReason::BadUrl).to_string(), "dial nothing (bad-url)");
}

/// A known deviation is excused, and an excuse that excuses nothing is a problem.
#[test]
fn known_deviations_are_held_to_account() {
    let no_topic = |asked: &Question| {
        let block = asked.block.map(|block| KvEvents { load_topic: "load".into(), ..block });
        plan(asked.worker_url, block.as_ref())
    };
    let suite = conformance::plans().url_credentials(UrlCredentials::Refuse);
    let report = suite
        .clone()
        .known_deviation("plan-base-alone", Deviation::Accepts, "an old engine sends no topic")
        .run(no_topic);
    assert_eq!(report.total().excused, 1);
    assert!(report.failures().iter().all(|failure| failure.vector != "plan-base-alone"));
    let report = suite.known_deviation("A2", Deviation::Accepts, "an old engine").run(ours);
    assert!(report.problems()[0].contains("was not seen"), "{report}");
}
