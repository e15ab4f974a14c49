package sawtooth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// testID is a well-formed id.
func testID(n int) batch.ID { return batch.ID(fmt.Sprintf("%0128x", n)) }

func attempts(ids ...batch.ID) (out []batch.Attempt) {
	for _, id := range ids {
		out = append(out, batch.Attempt{Key: batch.Key{ID: id}})
	}
	return out
}

func element(id batch.ID, status string) string {
	return fmt.Sprintf(`{"id": %q, "invalid_transactions": [], "status": %q}`, id, status)
}

// startNodeThatAnswers returns a node that answers every status request with status and body.
func startNodeThatAnswers(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(node.Close)
	return node
}

func TestStatusesOnTheWire(t *testing.T) {
	var asked [][]string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http.MethodPost, r.Method)
		assert.Equal(t, "/batch_statuses", r.RequestURI, "never with wait")
		assert.Equal(t, []string{"application/json"}, r.Header["Content-Type"])
		assert.Equal(t, []string{"Bearer " + secret}, r.Header["Authorization"])
		assert.Empty(t, r.TransferEncoding)
		var ids []string
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&ids))
		asked = append(asked, ids)
		var data []string
		for _, id := range ids {
			data = append(data, element(batch.ID(id), "PENDING"))
		}
		_, _ = fmt.Fprintf(w, `{"data": [%s], "link": "x"}`, strings.Join(data, ","))
	}))
	defer node.Close()
	c := newClient(t, node.URL, &sawtooth.Options{Header: secretHeader()})

	var as []batch.Attempt
	for n := range 120 {
		as = append(as, attempts(testID(n), testID(n))...) // each id twice
	}
	as = append(as, attempts("", "x", batch.ID(strings.ToUpper(vectorBatch)), vectorBatch+"00")...)
	got, err := c.BatchStatuses(context.Background(), "any", as)
	require.NoError(t, err)
	require.Len(t, got, 120)
	for n, s := range got {
		assert.Equal(t, batch.Status{ID: testID(n), Reported: batch.ReportedPending, Endpoint: node.URL}, s)
	}
	require.Len(t, asked, 3)
	assert.Equal(t, []int{50, 50, 20}, []int{len(asked[0]), len(asked[1]), len(asked[2])})
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(slices.Concat(asked...)))), 120)

	asked = nil
	got, err = c.BatchStatuses(context.Background(), "", attempts("x", ""))
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Empty(t, asked, "nothing to ask about is not asked")
}

func TestStatusDecoding(t *testing.T) {
	a, b := testID(0xa), testID(0xb)
	pendingA := batch.Status{ID: a, Reported: batch.ReportedPending}
	long := strings.Repeat("m", 5000)
	for name, c := range map[string]struct {
		body    string
		want    []batch.Status
		isError bool // true if the answers come with an error
	}{
		"all words": {
			body: `{"data": [` + element(b, "COMMITTED") + "," + element(a, "UNKNOWN") + `]}`,
			want: []batch.Status{{ID: b, Reported: batch.ReportedCommitted}, {ID: a, Reported: batch.ReportedUnknown}},
		},
		"invalid, with receipts": {
			body: `{"data": [{"id": "` + string(a) + `", "status": "INVALID", "invalid_transactions": [
				{"id": "t1", "message": "no money", "extended_data": "ZXJyb3IgZGF0YQ=="},
				{"id": "t2"},
				{"id": "t1", "message": "executed again"},
				{"id": "t3", "extended_data": "not base64"}]}]}`,
			want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid, Message: "no money", Receipts: []batch.Receipt{
				{TransactionID: "t1", Message: "no money", Data: []byte("error data")}, {TransactionID: "t2", Data: []byte{}}, {TransactionID: "t3"},
			}}},
		},
		"invalid, nobody named": {
			body: `{"data": [` + element(a, "INVALID") + `]}`,
			want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid}},
		},
		"long messages are bounded": {
			body: `{"data": [{"id": "` + string(a) + `", "status": "INVALID", "invalid_transactions": [{"id": "t1", "message": "` + long + `"}]}]}`,
			want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid, Message: long[:256], Receipts: []batch.Receipt{
				{TransactionID: "t1", Message: long[:batch.MaxErrorText], Data: []byte{}},
			}}},
		},
		"ids of others and ids twice": {
			body: `{"link": {"a": [1]}, "data": [` + element(testID(9), "COMMITTED") + "," + element(a, "PENDING") + "," + element(a, "COMMITTED") + `], "more": null}`,
			want: []batch.Status{pendingA},
		},
		"missing": {body: `{"data": []}`},

		"unknown word":       {body: `{"data": [` + element(b, "EXPLODED") + "," + element(a, "PENDING") + `]}`, want: []batch.Status{pendingA}, isError: true},
		"word in lower case": {body: `{"data": [` + element(a, "committed") + `]}`, isError: true},
		"no word":            {body: `{"data": [{"id": "` + string(a) + `"}]}`, isError: true},
		"wrong types":        {body: `{"data": [{"id": 7}, 3, ` + element(a, "PENDING") + `]}`, want: []batch.Status{pendingA}, isError: true},
		"cut off after one":  {body: `{"data": [` + element(a, "PENDING") + `, {"id": "` + string(b), want: []batch.Status{pendingA}, isError: true},
		"cut off at a comma": {body: `{"data": [` + element(a, "PENDING"), want: []batch.Status{pendingA}, isError: true},
		"cut off at the end": {body: `{"data": [` + element(a, "PENDING") + `]`, want: []batch.Status{pendingA}, isError: true},
		"nothing":            {body: "", isError: true},
		"no data":            {body: `{}`, isError: true},
		"data is no list":    {body: `{"data": {}}`, isError: true},
		"data is null":       {body: `{"data": null}`, isError: true},
		"a list":             {body: `[` + element(a, "PENDING") + `]`, isError: true},
		"HTML":               {body: `<html>` + secret, isError: true},
		"too large":          {body: `{"data": [` + element(a, "PENDING") + `, {"id": "` + strings.Repeat("x", 20_000) + `"}]}`, want: []batch.Status{pendingA}, isError: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := startNodeThatAnswers(t, 200, c.body)
			client := newClient(t, node.URL, &sawtooth.Options{Header: secretHeader(), MaxResponse: 10_000})
			got, err := client.BatchStatuses(context.Background(), "", attempts(a, b))
			for i := range got {
				if got[i].Endpoint != "" {
					assert.Equal(t, node.URL, got[i].Endpoint)
				}
				got[i].Endpoint = ""
			}
			assert.Equal(t, c.want, got)
			if !c.isError {
				require.NoError(t, err)
				return
			}
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, dlt.ErrDoubt)
			assert.Equal(t, 200, e.StatusCode)
			requireNoSecrets(t, err)
		})
	}
}

// The limit is exact: an answer of exactly that length is accepted.
func TestMaxResponse(t *testing.T) {
	body := `{"data": [` + element(testID(1), "COMMITTED") + `]}`
	node := startNodeThatAnswers(t, 200, body)
	for limit, ok := range map[int]bool{len(body): true, len(body) - 1: false} {
		c := newClient(t, node.URL, &sawtooth.Options{MaxResponse: int64(limit)})
		_, err := c.BatchStatuses(context.Background(), "", attempts(testID(1)))
		assert.Equal(t, ok, err == nil, "%v", err)
	}
}

func TestStatusErrors(t *testing.T) {
	for _, c := range []struct {
		status   int
		body     string
		wantKind batch.ErrorKind
	}{
		{400, answerEnvelope(43), batch.KindMisconfigured}, {400, answerEnvelope(46), batch.KindMisconfigured},
		{400, answerEnvelope(60), batch.KindMisconfigured}, {400, answerEnvelope(66), batch.KindMisconfigured},
		{400, answerEnvelope(99), batch.KindDoubt}, {400, "no", batch.KindDoubt},
		{401, "", batch.KindMisconfigured}, {403, "", batch.KindMisconfigured}, {404, "", batch.KindMisconfigured},
		{405, "", batch.KindMisconfigured}, {302, "", batch.KindMisconfigured}, {307, "", batch.KindMisconfigured},
		{408, answerEnvelope(19), batch.KindBusy}, {408, "", batch.KindBusy}, {429, "", batch.KindBusy},
		{500, answerEnvelope(10), batch.KindDoubt}, {500, "oops", batch.KindDoubt}, {502, "", batch.KindDoubt},
		{503, answerEnvelope(17), batch.KindDoubt}, {504, "", batch.KindDoubt}, {202, "{}", batch.KindDoubt}, {204, "", batch.KindDoubt},
	} {
		node := startNodeThatAnswers(t, c.status, c.body)
		client := newClient(t, node.URL, &sawtooth.Options{Header: secretHeader()})
		got, err := client.BatchStatuses(context.Background(), "", attempts(testID(1)))
		assert.Empty(t, got)
		assert.Equal(t, c.wantKind, dlt.Kind(err), "%d %s", c.status, c.body)
		var e *dlt.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, c.status, e.StatusCode)
		requireNoSecrets(t, err)
	}
	_, err := newClient(t, deadURL(t), nil).BatchStatuses(context.Background(), "", attempts(testID(1)))
	assert.Equal(t, batch.KindUnavailable, dlt.Kind(err))
}

func TestStatusesAndContext(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"data": [`+element(testID(1), "PENDING")+`,`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer node.Close()
	c := newClient(t, node.URL, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	got, err := c.BatchStatuses(ctx, "", attempts(testID(1), testID(2)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, []batch.Status{{ID: testID(1), Reported: batch.ReportedPending, Endpoint: node.URL}}, got)
}
