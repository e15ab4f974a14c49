package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/examples/internal/demotest"
)

func httpGet(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

// namesInSection returns the names for Prometheus in a section of docs/metrics.md.
func namesInSection(t *testing.T, section string) (names []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(page), "\n## "+section+"\n")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "\n## ")
	for _, found := range regexp.MustCompile("<br>`([a-z_]+)` \\|").FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	require.NotEmpty(t, names)
	return names
}

// Prometheus gets exactly the names, kinds and labels that docs/metrics.md lists.
func TestMetrics(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out demotest.Output
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", 200, &out) }()
	at := regexp.MustCompile(`serving\s+(http://\S+)/metrics`)
	require.Eventually(t, func() bool { return at.MatchString(out.String()) }, time.Minute, 10*time.Millisecond)
	url := at.FindStringSubmatch(out.String())[1]
	var text string
	require.Eventually(t, func() bool {
		_, text = httpGet(t, url+"/metrics")
		return regexp.MustCompile(`(?m)^dltbatch_batches_final_total\{dltbatch_state="committed"\} [1-9]`).MatchString(text) &&
			strings.Contains(text, `dltbatch_doubts_resolved_total{dltbatch_by="monitor",dltbatch_state="committed"}`) &&
			strings.Contains(text, "\ndltbatch_stats_age_seconds ")
	}, time.Minute, 50*time.Millisecond)

	counters, histograms, gauges := namesInSection(t, "Counters"), namesInSection(t, "Histograms"), namesInSection(t, "Gauges")
	gauges = append(gauges, namesInSection(t, "Gauges of the database")...)
	served := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(text, -1) {
		served[found[1]] = found[2]
	}
	for _, name := range counters {
		if name != "dltbatch_observer_lost_total" { // no event is lost in this test
			assert.Equal(t, "counter", served[name], name)
		}
	}
	for _, name := range histograms {
		assert.Equal(t, "histogram", served[name], name)
	}
	for _, name := range gauges {
		assert.Equal(t, "gauge", served[name], name)
	}
	all := slices.Concat(counters, histograms, gauges, []string{"target_info"})
	for name := range served {
		assert.Contains(t, all, name)
	}
	assert.NotContains(t, text, "customer-", "services are lanes, and no labels")
	assert.NotContains(t, text, "_OTHER")
	assert.Contains(t, text, "\ndltbatch_runners 1\n")
	assert.Contains(t, text, `messaging_client_operation_duration_seconds_count{messaging_operation_name="add_tx",messaging_operation_type="send",messaging_system="dltbatch"}`)

	// An order whose request has a traceparent is traced, and its spans are printed.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/orders/mine", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusCreated, res.StatusCode)
	for _, name := range []string{"POST /orders", "dltbatch attempt", "dltbatch outcome", "dltbatch final"} {
		assert.Eventually(t, func() bool {
			return strings.Contains(out.String(), "trace 4bf92f3577b34da6a3ce929d0e0e4736: "+name)
		}, time.Minute, 10*time.Millisecond, name)
	}
	status, body := httpGet(t, url+"/")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "/metrics")
	for _, path := range []string{"/livez", "/readyz"} {
		status, body := httpGet(t, url+path)
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, `{"ok":true,`)
	}
	stop()
	require.NoError(t, <-ended)
}

func TestWrongFlags(t *testing.T) {
	require.Error(t, run(t.Context(), "127.0.0.1:0", 0, t.Output()))
	require.Error(t, run(t.Context(), "nowhere", 1, t.Output()))
}

// This test binary also runs as the first process.
func TestMain(m *testing.M) {
	if dir := os.Getenv(folderVariable); dir != "" {
		fmt.Fprintln(os.Stderr, addAndDie(context.Background(), dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// One trace spans both processes: the first added the batch and was killed.
func TestTraced(t *testing.T) {
	var out demotest.Output
	require.NoError(t, showTrace(t.Context(), &out))
	text := out.String()
	demotest.RequireLines(t, text)
	assert.Contains(t, text, "was killed with kill -9")
	processes := map[string]bool{}
	for _, name := range []string{"POST /orders", "  dltbatch attempt", "  dltbatch query", "  dltbatch outcome", "  dltbatch final"} {
		found := regexp.MustCompile(`(?m)^` + name + ` .*pid (\d+) `).FindStringSubmatch(text)
		require.NotNil(t, found, "%s:\n%s", name, text)
		processes[found[1]] = true
	}
	assert.Len(t, processes, 2)
	assert.Contains(t, text, "state=committed")
}
