"""What went wrong for others, and where they told it: one line for each report that this folder answers."""

from __future__ import annotations

from typing import NamedTuple


class Report(NamedTuple):
    """A fault that somebody met in the field."""

    id: str
    kind: str
    source: str

    @property
    def test(self) -> tuple[str, str]:
        """The module and the function that answer it."""
        return f"test_{self.kind}", f"test_{self.id.replace('-', '_')}"


REPORTS = tuple(
    Report(*line.split())
    for line in """\
ra-01-httpdate-crash retry_after https://github.com/mloesch/sickle/pull/28
ra-03-fractional retry_after https://github.com/teng-lin/notebooklm-py/issues/1275
ra-05-negative retry_after https://github.com/NousResearch/hermes-agent/pull/84762
ra-07-hour-beyond-timeout retry_after https://github.com/urllib3/urllib3/issues/1338
ra-09-zero-hot-loop retry_after https://github.com/kubescape/kubevuln/pull/755
ra-11-initial-202-ignored retry_after https://github.com/Azure/azure-sdk-for-net/issues/44147
ra-13-user-interval-lost retry_after https://github.com/Azure/azure-sdk-for-net/issues/29072
ra-15-invalid-date-escapes retry_after https://github.com/anthropics/anthropic-sdk-python/pull/1827
loc-01-relative-wrong-base location https://github.com/Availity/sdk-js/issues/77
loc-03-http-behind-tls-proxy location https://github.com/ankitpokhrel/tus-php/issues/414
loc-05-202-not-understood location https://github.com/datacenter/cobra/issues/114
loc-07-client-built-double-slash location https://github.com/forcedotcom/cli/issues/2968
loc-09-normalisation-breaks-signature location https://github.com/jumpstarter-dev/jumpstarter/pull/662
inband-01-200-transient-code in_band_error https://github.com/Azure/azure-sdk-for-go/issues/23349
inband-03-done-neither in_band_error https://github.com/googleapis/google-cloud-python/issues/15557
inband-05-completed-no-output in_band_error https://github.com/BerriAI/litellm/issues/33987
inband-07-counts-disagree in_band_error https://github.com/tidyverse/ellmer/issues/830
inband-09-200-partial-failure in_band_error https://github.com/divviup/janus/issues/4146
inband-11-read-0-records-success in_band_error https://github.com/airbytehq/airbyte/issues/17503
state-01-space-mismatch state_vocab https://github.com/simple-salesforce/simple-salesforce/issues/517
state-03-extra-terminals-option state_vocab https://github.com/Azure/azure-sdk-for-python/issues/31755
state-05-aborted state_vocab https://github.com/replicate/replicate-python/pull/460
state-07-waiting-read-as-done state_vocab https://github.com/lightly-ai/lightly/pull/187
state-09-cancelled-is-no-data state_vocab https://github.com/amzn/selling-partner-api-models/issues/2357
shape-01-neither-field state_shape https://github.com/hashicorp/go-azure-sdk/issues/542
shape-03-poll-returns-other-id state_shape https://github.com/openai/openai-python/issues/2724
shape-05-results-202-not-done state_shape https://github.com/DataBiosphere/jade-data-repo/pull/1192
body-01-html-502 body_malformed https://github.com/valyuAI/valyu-py/pull/126
body-04-200-empty-on-success body_malformed https://github.com/defer-run/defer.client/issues/58
vis-01-404-first-poll visibility_after_submit https://github.com/hashicorp/go-azure-sdk/issues/740
vis-03-results-race visibility_after_submit https://github.com/ecmwf/cdsapi/issues/110
body-05-everything-is-pending poll_transient https://github.com/Scottcjn/bottube/issues/2209
poll-02-502-not-503 poll_transient https://github.com/Open-EO/openeo-python-client/issues/352
poll-04-throttle-is-terminal poll_transient https://github.com/aws/aws-sdk/issues/714
poll-06-retry-everything poll_transient https://github.com/firecrawl/firecrawl/pull/2608
poll-08-permanent-as-temporary poll_transient https://github.com/m-lab/telescope/issues/25
poll-10-dropped-while-running poll_transient https://github.com/ecmwf/cdsapi/issues/56
conn-01-keepalive-shorter-than-interval connection https://github.com/FMCorz/mdk/pull/262
conn-04-silent-nat-drop connection https://github.com/psf/requests/issues/6064
conn-06-lb-idle-502 connection https://github.com/medic/cht-core/issues/7183
conn-03-post-on-stale duplicate_submit https://github.com/dashscope/dashscope-sdk-python/pull/175
dup-02-lost-response duplicate_submit https://github.com/codalab/codabench/issues/2425
dup-04-key-reject-not-replay duplicate_submit https://github.com/Comfy-Org/docs/pull/1723
dl-01-drip-body deadline_body https://github.com/postmanlabs/httpbin/issues/642
dl-03-head-plus-body-doubles deadline_body https://github.com/0x676e67/wreq/pull/1263
dl-09-network-loss-hang deadline_body https://github.com/googleapis/python-bigquery/issues/2310
dl-04-poll-timeout-ignored deadline_sleep https://github.com/openai/openai-python/issues/1855
dl-06-sleep-full-delay deadline_sleep https://github.com/RedHatQE/wait_for/issues/43
dl-11-none-becomes-900 deadline_sleep https://github.com/googleapis/python-api-core/issues/591
dl-13-timeout-returns-half-result deadline_sleep https://github.com/Azure/azure-sdk-for-python/issues/1003
dl-10-six-days infinite_poll https://github.com/googleapis/python-bigquery/issues/1922
inf-02-bulk-stuck infinite_poll https://github.com/airbytehq/airbyte/issues/17148
clk-01-wall-clock-timeout clock https://github.com/xai-org/xai-sdk-python/issues/203
clk-03-monotonic-stops clock https://github.com/gammons/slk/pull/108
clk-05-not-yet-valid clock https://github.com/minio/minio-java/issues/487
sec-01-xamz-not-redacted secrets https://github.com/aws-observability/aws-otel-python-instrumentation/pull/840
sec-03-record-exception secrets https://github.com/deslicer/mcp-for-splunk/pull/204
sec-05-backend-safe-keys secrets https://github.com/pydantic/logfire/issues/1504
sec-07-upload-url-in-logs secrets https://github.com/cp2004/OctoPrint-OneDrive-Backup/issues/178
auth-01-s3-400 redirect_auth https://github.com/r-lib/httr/issues/626
auth-03-direct-presigned-fetch redirect_auth https://github.com/mattrobinsonsre/terrapod/issues/1077
auth-05-needs-auth-elsewhere redirect_auth https://github.com/planetlabs/planet-client-python/pull/44
auth-07-anonymous-monitor-401 redirect_auth https://github.com/microsoftgraph/msgraph-sdk-dotnet/issues/1797
auth-09-netrc redirect_auth https://github.com/psf/requests/issues/6928
auth-11-basic-to-signed-403 redirect_auth https://github.com/earthaccess-dev/earthaccess/issues/188
inf-04-token-expiry-loop credential_refresh https://github.com/sasjs/adapter/issues/403
cred-01-401-after-half-hour credential_refresh https://github.com/alpacax/alpacon-cli/pull/391
dup-11-job-id-in-timeout error_reporting https://github.com/HumeAI/hume-python-sdk/pull/80
herd-01-lockstep jitter https://github.com/ggozad/haiku.rag/pull/396
otel-18-events-dropped-oldest otel_limits https://github.com/Rul1an/assay/pull/1602
body-02-504-page-and-popped-result single_use https://github.com/ConesaLab/paintomics4/pull/155
page-01-first-page-only result_paging https://github.com/jsforce/jsforce/pull/1278
page-03-locator-as-number result_paging https://github.com/msrivastav13/node-sf-bulk2/issues/10
len-01-short-body-accepted encoding_length https://github.com/psf/requests/issues/4956
len-03-gzip-counts encoding_length https://github.com/httpie/cli/issues/1642
len-05-transport-double-gzip encoding_length https://github.com/amzn/selling-partner-api-docs/issues/3200
rng-01-200-appended range_resume https://github.com/huggingface/huggingface_hub/pull/3778
rng-03-earlier-start range_resume https://github.com/xroche/httrack/pull/428
rng-05-if-range-lost-on-retry range_resume https://github.com/huggingface/huggingface_hub/pull/4143
exp-01-six-hours presigned_expiry https://github.com/snowflakedb/snowflake-jdbc/issues/2023
exp-03-any-403-is-expiry presigned_expiry https://github.com/Sage-Bionetworks/synapsePythonClient/pull/371
exp-05-stampede presigned_expiry https://github.com/mem9-ai/drive9/issues/138
otel-01-double-http-spans otel_double https://github.com/Azure/azure-sdk-for-python/issues/19573
otel-03-retries-redirects-unseen otel_double https://github.com/open-telemetry/opentelemetry-python-contrib/issues/2000
otel-04-no-propagation-switch otel_propagation https://github.com/open-telemetry/opentelemetry-python-contrib/issues/344
otel-06-traceparent-breaks-signature otel_propagation https://github.com/open-telemetry/opentelemetry-go-contrib/issues/3368
otel-08-thread-pool-context otel_context https://github.com/open-telemetry/opentelemetry-python-contrib/issues/1009
otel-10-lro-scopes otel_context https://github.com/Azure/autorest.csharp/issues/2136
otel-11-fork-batch-processor otel_exit_fork https://github.com/open-telemetry/opentelemetry-python/issues/1567
otel-13-celery-recycle otel_exit_fork https://github.com/open-telemetry/opentelemetry-python-contrib/issues/4916
otel-15-exit-hang otel_exit_fork https://github.com/PostHog/posthog/pull/70964
cxl-01-ctrl-c-orphan cancel_orphan https://github.com/Burla-Cloud/burla/issues/192
cxl-03-on-kill-not-called cancel_orphan https://github.com/apache/airflow/issues/36090
dup-05-worker-restart-runs-twice durability https://github.com/apache/airflow/pull/4083
dup-07-resume-mixin durability https://github.com/apache/airflow/pull/67118
dup-09-token-cannot-serialise durability https://github.com/Azure/azure-sdk-for-python/issues/38713
dup-12-crash-window-recomputed-id durability https://github.com/apache/airflow/pull/69542
otel-16-invisible-until-end otel_inflight https://github.com/open-telemetry/opentelemetry-python-contrib/issues/3564
otel-20-body-time-missing otel_inflight https://github.com/open-telemetry/opentelemetry-python-contrib/issues/1908
""".splitlines()
)
