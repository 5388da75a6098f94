// Load for people who have k6: `k6 run deploy/k6/sluicegate.mjs`, with `-e URL=http://127.0.0.1:8080`.
//
// 50 users ask 200 times a second for 30 seconds, and then 100 at once every two seconds. A refusal is an answer, not a
// failure; `denied` is the share of refusals, to be held against what the policy says.
import http from 'k6/http';
import { check } from 'k6';
import { Rate } from 'k6/metrics';

const url = `${__ENV.URL || 'http://127.0.0.1:8080'}/v1/take`;
const users = Number(__ENV.USERS || 50);
const denied = new Rate('denied');

http.setResponseCallback(http.expectedStatuses(200, 403, 429));

export const options = {
  scenarios: {
    steady: {
      executor: 'constant-arrival-rate',
      rate: 200,
      timeUnit: '1s',
      duration: '30s',
      preAllocatedVUs: 50,
      maxVUs: 500,
    },
    bursts: {
      executor: 'per-vu-iterations',
      vus: 100,
      iterations: 5,
      startTime: '32s',
      maxDuration: '30s',
      exec: 'burst',
    },
  },
  thresholds: {
    http_req_failed: ['rate==0'],
    http_req_duration: ['p(99)<50'],
  },
};

function take(user) {
  const body = JSON.stringify({ attributes: { user: `user-${user}` } });
  const answer = http.post(url, body, { headers: { 'content-type': 'application/json' } });
  denied.add(answer.status !== 200);
  check(answer, { 'a refusal says when to come back': (it) => it.status !== 429 || 'Retry-After' in it.headers });
}

export default function () {
  take(Math.floor(Math.random() * users));
}

// All of one burst are one user's, at the next even second.
export function burst() {
  const wait = 2_000 - (Date.now() % 2_000);
  const until = Date.now() + wait;
  while (Date.now() < until);
  take(0);
}
