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

func id(c byte) batch.ID { return batch.ID(strings.Repeat(string(c), 128)) }

func ask(t testing.TB, c *splinter.Client, ids ...batch.ID) ([]batch.Status, error) {
	t.Helper()
	var attempts []batch.Attempt
	for _, i := range ids {
		attempts = append(attempts, batch.Attempt{Key: batch.Key{Service: service, ID: i}, Number: 1})
	}
	return c.BatchStatuses(t.Context(), service, attempts)
}

func element(i batch.ID, status string) string {
	return fmt.Sprintf(`{"id":"%s","status":%s,"timestamp":{"secs_since_epoch":1,"nanos_since_epoch":2}}`, i, status)
}

// TestStatusWords shows the meaning of the array of docs/ledgers/splinter.md#asking-for-statuses,
// in its old and its new form.
func TestStatusWords(t *testing.T) {
	a, b := id('a'), id('b')
	tx := strings.Repeat("c", 128)
	for name, row := range map[string]struct {
		body string
		want []batch.Status
		err  bool
	}{
		"unknown":               {body: "[" + element(a, `{"statusType":"Unknown","message":[]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedUnknown}}},
		"unknown before 0.6.13": {body: "[" + element(a, `{"statusType":"Unknown"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedUnknown}}},
		"pending":               {body: "[" + element(a, `{"statusType":"Pending","message":[]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedPending}}},
		"pending before 0.6.13": {body: "[" + element(a, `{"statusType":"Pending"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedPending}}},
		"valid":                 {body: "[" + element(a, `{"statusType":"Valid","message":[{"transaction_id":"`+tx+`"}]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedValid}}},
		"committed":             {body: "[" + element(a, `{"statusType":"Committed","message":[{"transaction_id":"`+tx+`"}]}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}},
		"invalid": {
			body: "[" + element(a, `{"statusType":"Invalid","message":[{"transaction_id":"innocent","error_message":"containing batch is invalid","error_data":[]},{"transaction_id":"`+tx+`","error_message":"no","error_data":[0,1,255]}]}`) + "]",
			want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid, Message: "no", Receipts: []batch.Receipt{
				{TransactionID: "innocent", Message: "containing batch is invalid", Data: []byte{}},
				{TransactionID: tx, Message: "no", Data: []byte{0, 1, 255}},
			}}},
		},
		// Seen on 0.6.14 for a batch of a good transaction and two that fail.
		"invalid, as nodes list it": {
			body: "[" + element(a, `{"statusType":"Invalid","message":[{"transaction_id":"x","error_message":"containing batch (`+string(a)+`) is invalid","error_data":[]},{"transaction_id":"`+tx+`","error_message":"Contract Registry already exists: log","error_data":[]},{"transaction_id":"y","error_message":"later","error_data":[]}]}`) + "]",
			want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid, Message: "Contract Registry already exists: log", Receipts: []batch.Receipt{
				{TransactionID: "x", Message: "containing batch (" + string(a) + ") is invalid", Data: []byte{}},
				{TransactionID: tx, Message: "Contract Registry already exists: log", Data: []byte{}},
				{TransactionID: "y", Message: "later", Data: []byte{}},
			}}},
		},
		"invalid with a message of another form": {body: "[" + element(a, `{"statusType":"Invalid","message":"why"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedInvalid}}},
		"no timestamp":                           {body: `[{"id":"` + string(a) + `","status":{"statusType":"Pending"}}]`, want: []batch.Status{{ID: a, Reported: batch.ReportedPending}}},
		"any order":                              {body: "[" + element(b, `{"statusType":"Pending"}`) + "," + element(a, `{"statusType":"Committed"}`) + "]", want: []batch.Status{{ID: b, Reported: batch.ReportedPending}, {ID: a, Reported: batch.ReportedCommitted}}},
		"an unknown word":                        {body: "[" + element(a, `{"statusType":"Sublime"}`) + "," + element(b, `{"statusType":"Pending"}`) + "]", want: []batch.Status{{ID: b, Reported: batch.ReportedPending}}, err: true},
		"Sawtooth's word":                        {body: "[" + element(a, `{"statusType":"COMMITTED"}`) + "]", err: true},
		"a stranger":                             {body: "[" + element(id('f'), `{"statusType":"Committed"}`) + "]"},
		"twice":                                  {body: "[" + element(a, `{"statusType":"Committed"}`) + "," + element(a, `{"statusType":"Invalid"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}},
		"nothing":                                {body: "[]"},
		"cut off":                                {body: "[" + element(a, `{"statusType":"Committed"}`) + ",{", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}, err: true},
		"Sawtooth's envelope":                    {body: `{"data":[]}`, err: true},
		"an element of a wrong type":             {body: `[7,` + element(a, `{"statusType":"Committed"}`) + "]", want: []batch.Status{{ID: a, Reported: batch.ReportedCommitted}}, err: true},
		"no JSON":                                {body: "<html>", err: true},
		"empty":                                  {body: "", err: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, canned(t, 200, jsonType, row.body).URL, nil)
			got, err := ask(t, c, a, b)
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
		status int
		body   string
		kind   batch.ErrorKind
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
			got, err := ask(t, newClient(t, canned(t, row.status, jsonType, row.body).URL, nil), id('a'))
			assert.Empty(t, got)
			require.Equal(t, row.kind, dlt.Kind(err), "%v", err)
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
	_, err := ask(t, c, id('a'), id('a'), "not hex", id('b'), batch.ID(strings.Repeat("A", 128)))
	require.NoError(t, err)
	require.Len(t, queries, 1)
	assert.Equal(t, "/scabbard/aaaaa-bbbbb/a000/batch_statuses?ids="+string(id('a')+","+id('b')), queries[0], "each id once, and no wait")

	queries = nil
	var many []batch.ID
	for i := range 120 {
		many = append(many, batch.ID(fmt.Sprintf("%0128x", i)))
	}
	_, err = ask(t, c, many...)
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
