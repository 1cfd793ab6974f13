"""Notes as an agent writes them, each with a question from someone who knows its meaning but not its words.

The questions were written before anything was measured, and share as few words with their notes as a person's would.
"""

from __future__ import annotations

NOTES: tuple[tuple[str, str], ...] = (
    (
        "The gateway listens on port 8443 behind nginx; 8080 is taken by the metrics exporter.",
        "which number do clients connect to",
    ),
    (
        "Deploys to production happen on Tuesdays only, after the on-call engineer has signed off.",
        "when may we release to customers",
    ),
    (
        "The staging database is wiped every night at 02:00 UTC and filled from an anonymised dump.",
        "why did my test data vanish overnight",
    ),
    (
        "All monetary amounts are Decimal with two places. A float anywhere in billing fails review.",
        "how should prices be represented in code",
    ),
    (
        "Maria prefers answers in one paragraph, without bullet points or emoji.",
        "how does she like replies to be formatted",
    ),
    (
        "The flaky test test_retry_backoff depends on the wall clock; freeze time or it fails on slow runners.",
        "unreliable check that breaks on sluggish CI machines",
    ),
    (
        "Uploads larger than 25 MB are refused by the proxy before they reach the application.",
        "maximum attachment size",
    ),
    ("Passwords are hashed with argon2id, memory 64 MB, three passes.", "how are credentials stored safely"),
    (
        "The French translation lags behind: strings after release 4.2 are still English.",
        "which language is not fully localised",
    ),
    (
        "Use the read replica for reports. Heavy queries on the primary caused the outage in March.",
        "what took the service down in spring",
    ),
    (
        "Session cookies expire after 12 hours; the refresh token lives for 30 days.",
        "how long until a user is logged out",
    ),
    (
        "The importer skips rows with an empty e-mail address and counts them in the summary.",
        "what happens to records lacking contact details",
    ),
    (
        "Background jobs run in Celery with two queues: fast for mail, slow for exports.",
        "where do asynchronous tasks get executed",
    ),
    ("The customer Hallberg pays by invoice with 45 days, all others by card.", "who has special payment terms"),
    (
        "Images are resized to 1600 pixels on the longest edge and stored as WebP.",
        "what do we do with uploaded pictures",
    ),
    (
        "The search page is slow because the facet counts are computed without an index on category_id.",
        "cause of bad performance when looking for products",
    ),
    (
        "Logs are kept for 14 days on disk and for a year in cold storage.",
        "how far back can we look at what the server printed",
    ),
    (
        "The API key of the weather provider is limited to 1,000 calls a day; cache answers for ten minutes.",
        "rate restriction of the forecast service",
    ),
    (
        "Migrations must be backwards compatible for one release, since old and new pods run side by side.",
        "rules for altering the schema during a rolling update",
    ),
    (
        "The mobile app pins the certificate; renewing it needs an app release two weeks before.",
        "what must be prepared before the TLS cert changes",
    ),
    (
        "Tests are started with make check; plain pytest misses the environment variables.",
        "how do I run the suite properly",
    ),
    ("Timestamps are stored in UTC and shown in the time zone of the browser.", "which clock do we persist dates in"),
    (
        "The legacy XML feed is read by one partner only, Nordwind, who will move to JSON in June.",
        "who still depends on the old interface",
    ),
    (
        "Feature flags live in the table toggles and are cached for 60 seconds in each process.",
        "why does switching an experiment on take a minute",
    ),
    (
        "The discount code logic rounds half up for each line, not on the total.",
        "how is the rebate calculated to the cent",
    ),
    (
        "Jonas is the owner of the payment module; ask him before touching the ledger.",
        "who must approve edits to bookkeeping code",
    ),
    (
        "A user may be deleted only after open orders are closed; the check is in accounts/close.py.",
        "precondition for removing a customer",
    ),
    (
        "The nightly build fails when the disk of runner three is full; docker system prune helps.",
        "ci machine out of space, remedy",
    ),
    (
        "Never call the tax service in tests: each request is billed. Use the recorded answers.",
        "which external dependency costs money and has to be faked",
    ),
    (
        "The PDF generator needs the fonts package, or umlauts turn into boxes.",
        "special characters look broken in printed documents",
    ),
    (
        "Pagination is by cursor; offsets were removed since deep pages timed out.",
        "how do I fetch the following batch of results",
    ),
    (
        "The rate of duplicate webhooks is about two percent: handlers have to be idempotent.",
        "the same notification can arrive twice",
    ),
    ("Prices for Switzerland include 8.1 percent VAT, for Norway none.", "which countries are taxed how"),
    (
        "The websocket is closed by the load balancer after 350 idle seconds; a ping is sent every five minutes.",
        "live connection drops when nothing is sent",
    ),
    (
        "Old invoices are immutable: a correction is a new document that refers to the first.",
        "how to fix a mistake in a bill that was sent",
    ),
    (
        "The admin area is reachable through the VPN only, from the office network or with a client certificate.",
        "how can staff get to the back office from home",
    ),
    (
        "Error budgets: 99.9 percent for checkout, 99 percent for everything else, measured over 28 days.",
        "what availability have we promised",
    ),
    (
        "The word cart is used in code and basket in the user interface; do not rename either.",
        "naming convention for the thing shoppers fill",
    ),
    (
        "Build images are pinned by digest. Renovate opens a pull request when a base image changes.",
        "how do we keep containers up to date reproducibly",
    ),
    (
        "When the queue grows beyond 5,000 messages the autoscaler adds workers, at most twelve.",
        "what happens under heavy load",
    ),
)
