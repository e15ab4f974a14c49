package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// serveConsole runs "dltbatch console" until stop is called. stop returns the exit code and the
// error output.
func (s *testCommand) serveConsole(args ...string) (at consoleAnswer, stop func() (int, string)) {
	s.Helper()
	out, in := io.Pipe()
	var errs bytes.Buffer
	a := newApp()
	a.stdout, a.stderr, a.hasColour = in, &errs, false
	a.getenv = func(string) string { return s.dsn }
	if s.dsn == "" {
		a.openDatabase = s.open
	}
	ctx, cancel := context.WithCancel(s.Context())
	code := make(chan int, 1)
	go func() {
		code <- a.run(ctx, append([]string{"console", "--listen", "127.0.0.1:0", "--json"}, args...))
		in.Close()
	}()
	require.NoError(s, json.NewDecoder(bufio.NewReader(out)).Decode(&at))
	return at, func() (int, string) {
		cancel()
		return <-code, errs.String()
	}
}

// request sends a request to the console as a browser does.
func (s *testCommand) request(c *http.Client, method, address, host string, form url.Values) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, address, strings.NewReader(form.Encode()))
	require.NoError(s, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if host != "" {
		r.Host = host
	}
	resp, err := c.Do(r)
	require.NoError(s, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s, err)
	return resp.StatusCode, string(text)
}

// The command serves the console, read-only without an actor, and otherwise with the actor of the
// command line.
func TestConsole(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1")
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		pause := url.Values{"do": {"pause"}, "service": {"s"}, "version": {"0"}, "reason": {"ticket 17"}}

		at, stop := s.serveConsole()
		assert.Empty(s, at.Actor)
		code, text := s.request(client, http.MethodGet, at.URL, "", nil)
		assert.Equal(s, http.StatusOK, code)
		assert.Contains(s, text, "read-only")
		code, _ = s.request(client, http.MethodPost, at.URL+"act", "", pause)
		assert.Equal(s, http.StatusForbidden, code)
		for host, want := range map[string]int{
			"localhost:8190": http.StatusOK, "[::1]:8190": http.StatusOK, "127.0.0.1": http.StatusOK,
			"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example:8190": http.StatusMisdirectedRequest, "192.0.2.1": http.StatusMisdirectedRequest,
		} {
			code, _ = s.request(client, http.MethodGet, at.URL+"lanes", host, nil)
			assert.Equal(s, want, code, host)
		}
		exit, errs := stop()
		assert.Equal(s, exitDone, exit, errs)
		assert.Empty(s, errs)

		at, stop = s.serveConsole("--actor", "ada", "--behind-proxy")
		assert.Equal(s, "ada", at.Actor)
		code, _ = s.request(client, http.MethodPost, at.URL+"act", "queue.example", pause)
		assert.Equal(s, http.StatusOK, code)
		exit, errs = stop()
		assert.Equal(s, exitDone, exit, errs)
		control, err := s.st.Control(s.Context(), batch.Only("s"))
		require.NoError(s, err)
		assert.Equal(s, batch.By{Actor: "ada", Reason: "ticket 17"}, control.PausedBy)
	})
}

// The log of the console shows no data source name, whatever failed.
func TestConsoleLogsNoSecrets(t *testing.T) {
	const secret = "hunter2-Zq"
	var errs bytes.Buffer
	a := newApp()
	a.stderr, a.namedTargets = &errs, []target{{dsn: "postgres://ada:" + secret + "@db/queue"}}
	a.logger().ErrorContext(t.Context(), "it failed", slog.Any("error", fmt.Errorf("dial %s: refused", a.namedTargets[0].dsn)))
	assert.Contains(t, errs.String(), "refused")
	assert.NotContains(t, errs.String(), secret)
}

// An address that others reach is refused before it is opened.
func TestConsoleRefusesOtherAddresses(t *testing.T) {
	s := &testCommand{T: t, dsn: newFile(t).dsn}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // without this, the test would hang if an address were not refused
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		var errs bytes.Buffer
		a := newApp()
		a.stdout, a.stderr, a.getenv = io.Discard, &errs, func(string) string { return s.dsn }
		assert.Equal(t, exitUsage, a.run(ctx, []string{"console", "--listen", address}), address)
		assert.Contains(t, errs.String(), "--behind-proxy", address)
	}
	s.runFailing(exitUsage, "console", "--listen", "nowhere")
	s.runFailing(exitUsage, "console", "--actor", "")
}
