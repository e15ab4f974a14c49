package splinter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter"
)

func testID(c byte) batch.ID { return batch.ID(strings.Repeat(string(c), 128)) }

func askStatuses(t testing.TB, c *splinter.Client, ids ...batch.ID) ([]batch.Status, error) {
	t.Helper()
	var attempts []batch.Attempt
	for _, i := range ids {
		attempts = append(attempts, batch.Attempt{Key: batch.Key{Service: service, ID: i}, Number: 1})
	}
	return c.BatchStatuses(t.Context(), service, attempts)
}

func statusElement(i batch.ID, status string) string {
	return fmt.Sprintf(`{"id":"%s","status":%s,"timestamp":{"secs_since_epoch":1,"nanos_since_epoch":2}}`, i, status)
}

// TestStatusWords shows the meaning of the array of docs/ledgers/splinter.md#asking-for-statuses,
// in its old and its new form.
func TestStatusWords(t *testing.T) {
	a, b := testID('a'), testID('b')
	tx := strings.Repeat("c", 128)
	for name, row := range map[string]struct {
		body string
		want []batch.Status
		err  bool
	}{
		"unknown":               {body: "[" + statusElement(a, `{"statusType":"Unknown","message":[]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedUnknown}}},
		"unknown before 0.6.13": {body: "[" + statusElement(a, `{"statusType":"Unknown"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedUnknown}}},
		"pending":               {body: "[" + statusElement(a, `{"statusType":"Pending","message":[]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedPending}}},
		"pending before 0.6.13": {body: "[" + statusElement(a, `{"statusType":"Pending"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedPending}}},
		"valid":                 {body: "[" + statusElement(a, `{"statusType":"Valid","message":[{"transaction_id":"`+tx+`"}]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedValid}}},
		"committed":             {body: "[" + statusElement(a, `{"statusType":"Committed","message":[{"transaction_id":"`+tx+`"}]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}},
		"invalid": {
			body: "[" + statusElement(a, `{"statusType":"Invalid","message":[{"transaction_id":"innocent","error_message":"containing batch is invalid","error_data":[]},{"transaction_id":"`+tx+`","error_message":"no","error_data":[0,1,255]}]}`) + "]",
			want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid, Message: "no", Receipts: []batch.Receipt{
				{TransactionID: "innocent", Message: "containing batch is invalid", Data: []byte{}},
				{TransactionID: tx, Message: "no", Data: []byte{0, 1, 255}},
			}}},
		},
		// Seen on 0.6.14 for a batch of a good transaction and two that fail.
		"invalid, as nodes list it": {
			body: "[" + statusElement(a, `{"statusType":"Invalid","message":[{"transaction_id":"x","error_message":"containing batch (`+string(a)+`) is invalid","error_data":[]},{"transaction_id":"`+tx+`","error_message":"Contract Registry already exists: log","error_data":[]},{"transaction_id":"y","error_message":"later","error_data":[]}]}`) + "]",
			want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid, Message: "Contract Registry already exists: log", Receipts: []batch.Receipt{
				{TransactionID: "x", Message: "containing batch (" + string(a) + ") is invalid", Data: []byte{}},
				{TransactionID: tx, Message: "Contract Registry already exists: log", Data: []byte{}},
				{TransactionID: "y", Message: "later", Data: []byte{}},
			}}},
		},
		"invalid with a message of another form": {body: "[" + statusElement(a, `{"statusType":"Invalid","message":"why"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid}}},
		"no timestamp":                           {body: `[{"id":"` + string(a) + `","status":{"statusType":"Pending"}}]`, want: []batch.Status{{ID: a, Reported: batch.ReportedPending}}},
		"any order":                              {body: "[" + statusElement(b, `{"statusType":"Pending"}`) + "," + statusElement(a, `{"statusType":"Committed"}`) + "]", want: []batch.Status{{ID: b, Reported: batch.ReportedPending}, {ID: a, Reported: batch.ReportedCommitted}}},
		"an unknown word":                        {body: "[" + statusElement(a, `{"statusType":"Sublime"}`) + "," + statusElement(b, `{"statusType":"Pending"}`) + "]", want: []batch.Status{{ID: b, Reported: batch.ReportedPending}}, err: true},
		"Sawtooth's word":                        {body: "[" + statusElement(a, `{"statusType":"COMMITTED"}`) + "]", err: true},
		"a stranger":                             {body: "[" + statusElement(testID('f'), `{"statusType":"Committed"}`) + "]"},
		"twice":                                  {body: "[" + statusElement(a, `{"statusType":"Committed"}`) + "," + statusElement(a, `{"statusType":"Invalid"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}},
		"nothing":                                {body: "[]"},
		"cut off":                                {body: "[" + statusElement(a, `{"statusType":"Committed"}`) + ",{", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}, err: true},
		"Sawtooth's envelope":                    {body: `{"data":[]}`, err: true},
		"an element of a wrong type":             {body: `[7,` + statusElement(a, `{"statusType":"Committed"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}, err: true},
		"no JSON":                                {body: "<html>", err: true},
		"empty":                                  {body: "", err: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, startNodeThatAnswers(t, 200, jsonType, row.body).URL, nil)
			got, err := askStatuses(t, c, a, b)
			assert.Equal(t, row.want, got)
			if row.err {
				var e *dlt.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, batch.KindDoubt, dlt.Kind(err))
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

// TestStatusRefusals shows the meaning of the other answers of
// docs/ledgers/splinter.md#asking-for-statuses.
func TestStatusRefusals(t *testing.T) {
	for name, row := range map[string]struct {
		status   int
		body     string
		wantKind batch.ErrorKind
	}{
		"400 query":                {400, `{"code":"400","message":"m"}`, batch.KindMisconfigured},
		"400 version":              {400, `{"message":"m","requested_protocol":2}`, batch.KindMisconfigured},
		"401":                      {401, `{"code":"401","message":"m"}`, batch.KindMisconfigured},
		"404":                      {404, `{"message":"scabbard service a000 on circuit aaaaa-bbbbb not found"}`, batch.KindUnavailable},
		"408, the end of a wait":   {408, `{"code":"408","message":"m"}`, batch.KindBusy},
		"429 of a proxy":           {429, ``, batch.KindBusy},
		"500":                      {500, `{"code":"500","message":"m"}`, batch.KindDoubt},
		"502":                      {502, ``, batch.KindDoubt},
		"307":                      {307, ``, batch.KindMisconfigured},
		"204, which it never says": {204, ``, batch.KindDoubt},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := askStatuses(t, newClient(t, startNodeThatAnswers(t, row.status, jsonType, row.body).URL, nil), testID('a'))
			assert.Empty(t, got)
			require.Equal(t, row.wantKind, dlt.Kind(err), "%v", err)
		})
	}
}

func TestStatusOnTheWire(t *testing.T) {
	var queries []string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.RequestURI)
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(node.Close)
	c := newClient(t, node.URL, nil)
	_, err := askStatuses(t, c, testID('a'), testID('a'), "not hex", testID('b'), batch.ID(strings.Repeat("A", 128)))
	require.NoError(t, err)
	require.Len(t, queries, 1)
	assert.Equal(t, "/scabbard/aaaaa-bbbbb/a000/batch_statuses?ids="+string(testID('a')+","+testID('b')), queries[0], "each id once, and no wait")

	queries = nil
	var many []batch.ID
	for i := range 120 {
		many = append(many, batch.ID(fmt.Sprintf("%0128x", i)))
	}
	_, err = askStatuses(t, c, many...)
	require.NoError(t, err)
	require.Len(t, queries, 3)
	for _, q := range queries {
		assert.Less(t, len(q), 8000, "servers take request lines of 8 KiB")
	}
}

func TestTraits(t *testing.T) {
	c := newClient(t, "http://localhost:8080", nil)
	got := c.Traits(service)
	assert.Equal(t, dlt.Traits{
		Name: "splinter", LateArrival: 660 * time.Second, MaxIDsPerQuery: 50, MaxInFlightPerService: 30, KeepsOrder: true, GroupsByService: true,
		PressureScope: dlt.ScopeService, Stale: 60 * time.Second, Resolves: true, Streams: true, Checks: true,
	}, got)
	assert.Greater(t, got.LateArrival, 600*time.Second, "two stalls of 300 s")
}
