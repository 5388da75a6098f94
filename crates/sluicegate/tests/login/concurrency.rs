//! Guesses at one instant.

use sluicegate::login::{Begun, Profile, Settlement};

use crate::support::{BOB, from, person, place};

/// As Keycloak's CVE-2024-4629 and Zitadel's CVE-2023-47111 report: parallel guesses all passed the check.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_tasks_at_once_verify_exactly_seven_guesses() {
    for round in 0..20 {
        let place = place(Profile::Strong);
        let tasks = (0..1_000_u32).map(|number| {
            let guard = place.guard.clone();
            tokio::spawn(async move {
                let token = format!("person {round} {number}");
                match guard.begin(&person(from(number, BOB), &token)).await.unwrap() {
                    Begun::Open(attempt) => {
                        tokio::task::yield_now().await;
                        attempt.report(Settlement::WRONG).await.unwrap();
                        1
                    }
                    Begun::Refused(_) => 0,
                }
            })
        });
        let mut verified = 0;
        for task in tasks.collect::<Vec<_>>() {
            verified += task.await.unwrap();
        }
        assert_eq!(verified, 7, "round {round}");
    }
}

/// As shopsys #4860 reports: a limiter that counted successes locked whole offices.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_people_behind_one_address_log_in_at_once() {
    let place = place(Profile::Strong);
    let names: Vec<String> = (0..1_000).map(|number| format!("person-{number}")).collect();
    // Fifteen at a time: what is under way counts as a guess until it is known to be none.
    for group in names.chunks(15) {
        let tasks = group.iter().cloned().map(|name| {
            let guard = place.guard.clone();
            tokio::spawn(async move {
                let who = sluicegate::login::Who::Presented(&name);
                let token = format!("person {name}");
                crate::support::log_in(&guard, &person(from(1, who), &token)).await
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert!(task.await.unwrap().is_some());
        }
    }
}
