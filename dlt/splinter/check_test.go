package splinter_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

func TestCheck(t *testing.T) {
	c := newClient(t, "http://localhost:8080", nil)
	good := incBatch(t, service, "x")
	require.NoError(t, c.Check(good))
	refused := func(b batch.Batch, field string) {
		t.Helper()
		var inputErr *batch.InputError
		require.ErrorAs(t, c.Check(b), &inputErr)
		assert.Equal(t, field, inputErr.Field)
	}
	for _, s := range []batch.ServiceID{
		"", "a000", "aaaaa-bbbbb", "aaaaa-bbbbb::", "aaaaa-bbbbb::a00", "aaaaa-bbbbb::a0000", "aaaa-bbbbb::a000", "aaaaa_bbbbb::a000",
		"aaaaa-bbbbb:a000", "aaaaa-bbbbb::a000/", "aaaaa-bbbbb::a/..", "../..-bbbbb::a000", "aaaaa-bbbbb::ä00", "aaaaa-bbbbb::a000::x", "aaaaa-bbb-b::a000",
	} {
		b := good
		b.Service = s
		refused(b, "Service")
	}
	// Check refuses batches on which a node would hang for 300 s
	// (docs/ledgers/splinter.md#submitting).
	poison := newTransaction(splintertest.Set("x", 1))
	poison.FamilyName = "intkey"
	refused(buildBatch(t, service, newTransaction(splintertest.Set("x", 1)), poison), "transactions[1].header.family_name, family_version")
	with := newClient(t, "http://localhost:8080", &splinter.Options{Families: []splinter.Family{{Name: "intkey"}}})
	assert.NoError(t, with.Check(buildBatch(t, service, poison)))
	// Splinter 0.6.14 commits the versions 0.5, 0.6 and 1 of sabre, and stalls at any other.
	for version, good := range map[string]bool{"0.5": true, "0.6": true, "1": true, "9.9": false, "1.0": false, "0.4": false} {
		x := newTransaction(splintertest.Set("x", 1))
		x.FamilyName, x.FamilyVersion = "sabre", version
		b := buildBatch(t, service, x)
		if good {
			assert.NoError(t, c.Check(b), version)
			continue
		}
		refused(b, "transactions[0].header.family_name, family_version")
	}

	bad := good
	bad.Payload = bad.Payload[:len(bad.Payload)-1]
	assert.Error(t, c.Check(bad))
	small := newClient(t, "http://localhost:8080", &splinter.Options{MaxBody: 100})
	assert.Error(t, small.Check(good))
}

func TestOptions(t *testing.T) {
	for name, row := range map[string]struct {
		url     string
		options *splinter.Options
	}{
		"no scheme":      {"localhost:8080", nil},
		"another scheme": {"ftp://localhost", nil},
		"a query":        {"http://localhost?x", nil},
		"negative":       {"http://localhost", &splinter.Options{LateArrival: -time.Second}},
		"negative bound": {"http://localhost", &splinter.Options{MaxInFlightPerService: -1}},
		"a fixed header": {"http://localhost", &splinter.Options{Header: map[string][]string{"SplinterProtocolVersion": {"2"}}}},
		"a bent header":  {"http://localhost", &splinter.Options{Header: map[string][]string{"X-Y": {"a\nb"}}}},
		"authorized twice": {"http://localhost", &splinter.Options{
			Token: splinter.OAuth2Token("abc"), Header: map[string][]string{"Authorization": {"x"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := splinter.New(row.url, row.options)
			assert.ErrorIs(t, err, batch.ErrInvalidInput)
		})
	}
}

// Statuses are asked for at the service's own node, to which the batch was sent.
func TestNodeByService(t *testing.T) {
	net := splintertest.Start(t, nil)
	c := newClient(t, deadURL(t), &splinter.Options{Node: func(s batch.ServiceID) string { return net.URL(net.NodeOf(s)) }})
	for i := range 2 {
		b := incBatch(t, net.Service(i), "x")
		require.NoError(t, c.Submit(t.Context(), firstAttempt(b)))
		require.Eventually(t, func() bool {
			st, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{firstAttempt(b)})
			return err == nil && len(st) == 1 && st[0].Reported == batch.ReportedCommitted
		}, 30*time.Second, time.Millisecond)
	}
	assert.EqualValues(t, 2, net.State(net.Service(0))["x"])
	assert.Len(t, net.Executions(net.Service(0)), 2)
	bad := newClient(t, deadURL(t), &splinter.Options{Node: func(batch.ServiceID) string { return "nonsense" }})
	assert.Error(t, bad.Submit(t.Context(), firstAttempt(incBatch(t, net.Service(0), "x"))))
}
