package canton_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/canton"
)

// startFakeParticipant returns a participant that serves these completions.
func startFakeParticipant(t *testing.T, list []string, pruned int64) *httptest.Server {
	t.Helper()
	var all atomic.Pointer[[]string]
	all.Store(&list)
	return startGrowingParticipant(t, &all, pruned)
}

// startGrowingParticipant returns a participant that serves the completions in all, to which more
// may be added.
func startGrowingParticipant(t *testing.T, all *atomic.Pointer[[]string], pruned int64) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := *all.Load()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "ledger-end"):
			_, _ = fmt.Fprintf(w, `{"offset":%d}`, len(list))
		case strings.HasSuffix(r.URL.Path, "latest-pruned-offsets"):
			_, _ = fmt.Fprintf(w, `{"participantPrunedUpToInclusive":%d}`, pruned)
		default:
			b, _ := io.ReadAll(r.Body)
			var q struct {
				Begin int64 `json:"beginExclusive"`
			}
			_ = json.Unmarshal(b, &q)
			if q.Begin < pruned {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"code":"PARTICIPANT_PRUNED_DATA_ACCESSED","cause":"","errorCategory":9,"grpcCodeValue":9}`)
				return
			}
			limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
			end := min(len(list), int(q.Begin)+limit)
			_, _ = io.WriteString(w, "["+strings.Join(list[min(int(q.Begin), end):end], ",")+"]")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// completionJSON returns the completion of attempt n of a batch, as JSON.
func completionJSON(id string, n, offset, code int, msg string) string {
	return fmt.Sprintf(`{"completionResponse":{"Completion":{"value":{"commandId":%q,"submissionId":"%s#%d","userId":"app","actAs":["Alice"],"offset":%d,"status":{"code":%d,"message":%q}}}}}`, id, id, n, offset, code, msg)
}

// If the first completions of a batch were pruned, its commit is still found, many pages later.
func TestACommitBehindPrunedCompletionsIsFound(t *testing.T) {
	var list []string
	for i := 1; i <= 200; i++ {
		list = append(list, completionJSON(fmt.Sprint("other", i), 1, i, 0, ""))
	}
	list = append(list, completionJSON("A", 1, 201, 0, ""))
	c, err := canton.New(startFakeParticipant(t, list, 10).URL, &canton.Options{UserID: "app", PageLimit: 1, IdleWait: time.Millisecond})
	require.NoError(t, err)
	a := batch.Attempt{Key: batch.Key{Service: "Alice", ID: "A"}, Number: 1, Prepared: []byte(`{"offset":0}`)}
	for range 5 {
		out, err := c.BatchStatuses(t.Context(), "Alice", []batch.Attempt{a})
		require.NoError(t, err)
		if len(out) > 0 {
			assert.Equal(t, batch.ReportedCommitted, out[0].Reported)
			return
		}
	}
	t.Error("the commit was not found")
}

// If the completions of a batch were pruned and it has no later one, each call returns an error.
func TestPrunedCompletionsAreReported(t *testing.T) {
	var list []string
	for i := 1; i <= 120; i++ {
		list = append(list, completionJSON(fmt.Sprint("other", i), 1, i, 0, ""))
	}
	c, err := canton.New(startFakeParticipant(t, list, 10).URL, &canton.Options{UserID: "app", PageLimit: 1, IdleWait: time.Millisecond})
	require.NoError(t, err)
	a := batch.Attempt{Key: batch.Key{Service: "Alice", ID: "A"}, Number: 1, Prepared: []byte(`{"offset":0}`)}
	errors := 0
	for range 6 {
		out, err := c.BatchStatuses(t.Context(), "Alice", []batch.Attempt{a})
		assert.Empty(t, out, "an answer would be a resend")
		if err != nil {
			assert.ErrorContains(t, err, "pruned")
			errors++
		}
	}
	assert.Equal(t, 4, errors, "but for the two calls that read")
}

// The completions of a batch that only an operator can judge are read again from the same offset
// each time. They do not delay any other batch, however many completions come after that offset.
func TestWhatOnlyAnOperatorCanJudgeHoldsUpNoOther(t *testing.T) {
	list := []string{completionJSON("A", 1, 1, 15, "data loss")}
	for i := 2; i <= 201; i++ {
		list = append(list, completionJSON(fmt.Sprint("other", i), 1, i, 0, ""))
	}
	list = append(list, completionJSON("B", 1, 202, 0, ""), completionJSON("C", 1, 203, 15, "data loss"))
	var all atomic.Pointer[[]string]
	all.Store(&list)
	c, err := canton.New(startGrowingParticipant(t, &all, 0).URL, &canton.Options{UserID: "app", PageLimit: 1, IdleWait: time.Millisecond})
	require.NoError(t, err)
	ask := []batch.Attempt{
		{Key: batch.Key{Service: "Alice", ID: "A"}, Number: 1, Prepared: []byte(`{"offset":0}`)},
		{Key: batch.Key{Service: "Alice", ID: "B"}, Number: 1, Prepared: []byte(`{"offset":150}`)},
	}
	found := func(want batch.Status) {
		t.Helper()
		for range 3 {
			out, err := c.BatchStatuses(t.Context(), "Alice", ask)
			require.ErrorContains(t, err, "attempt 1 of batch Alice/A ended with what only an operator can judge", "each time")
			if len(out) > 0 {
				assert.Equal(t, []batch.Status{want}, out)
				return
			}
		}
		t.Error("the commit was not found", want)
	}
	found(batch.Status{ID: "B", Reported: batch.ReportedCommitted, Attempt: 1})

	// Such a batch does not delay another one that only an operator can judge, and that somebody
	// has sent again.
	ask[1] = batch.Attempt{Key: batch.Key{Service: "Alice", ID: "C"}, Number: 1, Prepared: []byte(`{"offset":190}`)}
	_, err = c.BatchStatuses(t.Context(), "Alice", ask)
	require.ErrorContains(t, err, "attempt 1 of batch Alice/C ended with what only an operator can judge")
	again := append(slices.Clone(list), completionJSON("C", 2, 204, 0, ""))
	all.Store(&again)
	ask[1].Number = 2
	found(batch.Status{ID: "C", Reported: batch.ReportedCommitted, Attempt: 2})
}
