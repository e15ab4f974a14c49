package sqlite

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// packageStatements returns the constants with names that begin with "sql" from the files of
// queries. Shared statements are in the form in which this package sends them.
func packageStatements(t *testing.T) map[string]string {
	exprs := map[string]ast.Expr{}
	for _, name := range []string{"queries.go", "orderqueries.go", "hearqueries.go", "operatorqueries.go", "../../internal/sqlstore/queries.go", "../../internal/sqlstore/findqueries.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				for i, name := range v.Names {
					if len(v.Values) > 0 {
						require.NotContains(t, exprs, name.Name)
						exprs[name.Name] = v.Values[i]
					}
				}
			}
			return true
		})
	}
	var eval func(e ast.Expr) string
	eval = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			s, err := strconv.Unquote(e.Value)
			require.NoError(t, err)
			return s
		case *ast.BinaryExpr:
			return eval(e.X) + eval(e.Y)
		case *ast.Ident:
			require.Contains(t, exprs, e.Name)
			return eval(exprs[e.Name])
		case *ast.SelectorExpr: // a constant of sqlstore
			return eval(e.Sel)
		}
		require.Failf(t, "expression", "%T", e)
		return ""
	}
	found := map[string]string{}
	for name, e := range exprs {
		if strings.HasPrefix(name, "sql") {
			found[name] = rebind(eval(e))
		}
	}
	require.Equal(t, sqlDue, found["sqlDue"], "the reader of queries.go")
	return found
}

// queryPlan returns the planner's plan of a query, a line for each step.
func queryPlan(t *testing.T, s *Store, query string) []string {
	t.Helper()
	n := len(regexp.MustCompile(`\?(\D|$)`).FindAllString(query, -1))
	for _, m := range regexp.MustCompile(`\?(\d+)`).FindAllStringSubmatch(query, -1) {
		number, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		n = max(n, number)
	}
	args := make([]any, n)
	for i := range args {
		args[i] = 1
	}
	rows, err := s.db.Query("EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err, query)
	defer func() { require.NoError(t, rows.Close()) }()
	var lines []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		lines = append(lines, detail)
	}
	require.NoError(t, rows.Err())
	return lines
}

// lastStatement returns the last statement that do sends.
func lastStatement(t *testing.T, s *Store, do func() error) (last string) {
	t.Helper()
	s.texts = sqlstore.NewTexts(func(statement string) string {
		last = rebind(statement)
		return last
	})
	require.NoError(t, do())
	return last
}

// allowedScans lists the tables that a statement may read from end to end, with the reason.
var allowedScans = map[string]string{
	"SCAN CONSTANT ROW":                  "one row",
	"SCAN j VIRTUAL TABLE INDEX 1:":      "the numbers of one call",
	"SCAN json_each VIRTUAL TABLE INDEX": "the numbers of one call",
	"SCAN d":                             "the rows that were selected in the line before, at most Limit or Cap",
	"SCAN lanes":                         "the lanes that were found so far",
	"SCAN j":                             "likewise, up to Limit that are open",
	"SCAN dltbatch_tombstones":           "EXISTS reads its first row only",
	"SCAN ledger":                        "at most one row",
	"SCAN 5-ROW VALUES CLAUSE":           "the batches of one statement",
	"SCAN parties":                       "the parties that were found so far, and those that have a batch",
	"SCAN idle":                          "the parties that were found, at most Limit",
	"SCAN loads":                         "the same",
	"SCAN u":                             "the batches of orders that are not settled: what is in flight",
	"SCAN dltbatch_unsettled_batches":    "the same",
}

// allowedFullReads lists the lines of the plans of statements that read everything of a kind, with
// the reason. No claim, Add or Record waits for these statements, and only one process of the
// cluster sends them.
var allowedFullReads = map[string]map[string]string{
	"sqlCountOpen": {
		"SCAN o USING COVERING INDEX dltbatch_open_batches_lane": "what is open, without its rows",
		"SCAN a USING INDEX dltbatch_open_batches_attempted":     "what is under way or waits again",
		"SCAN found":         "the states",
		"SCAN (subquery-10)": "ten lanes",
		"SCAN dltbatch_outcomes USING COVERING INDEX dltbatch_outcomes_quarantined": "what a policy set aside, not what is final",
		"SCAN c": "the controls",
		"SCAN m": "a row for each migration",
		"SCAN q": "the orders that are open",
	},
	"sqlBulks":           {"SCAN b": "one row for each bulk action of a month"},
	"sqlForgetBulks":     {"SCAN bulks": "the same"},
	"sqlForgetBulkParts": {"SCAN b": "the same"},
	"sqlInstances":       {"SCAN i": "at most MaxInstances"},
	"sqlForgetInstances": {"SCAN instances": "the same", "SCAN x": "the same"},
	"sqlSize":            {"SCAN p VIRTUAL TABLE INDEX 0:": "one row", "SCAN s VIRTUAL TABLE INDEX 0:": "one row"},
}

// badPlanOf is badPlan for a statement that may have lines in allowedFullReads.
func badPlanOf(name string, lines []string) (bad []string) {
	return slices.DeleteFunc(badPlan(lines), func(line string) bool {
		_, ok := allowedFullReads[name][line]
		return ok
	})
}

func badPlan(lines []string) (bad []string) {
	for _, l := range lines {
		if !strings.HasPrefix(l, "SCAN") {
			continue
		}
		ok := false
		for prefix := range allowedScans {
			ok = ok || l == prefix || strings.HasPrefix(l, prefix+" ") || (strings.HasSuffix(prefix, ":") && strings.HasPrefix(l, prefix))
		}
		if !ok {
			bad = append(bad, l)
		}
	}
	return bad
}

// No statement of the engine scans rows whose number grows with the backlog or with history
// (docs/design.md#promise-9-cost).
func TestNoStatementScans(t *testing.T) {
	s, _, _ := newTestStore(t)
	all := packageStatements(t)
	require.Greater(t, len(all), 30)
	for name, query := range all {
		t.Run(name, func(t *testing.T) {
			lines := queryPlan(t, s, query)
			t.Log(strings.Join(lines, "\n"))
			assert.Empty(t, badPlanOf(name, lines), "%s\n%s", query, strings.Join(lines, "\n"))
		})
	}
}

// The planner decides by the contents of the tables, so the test asks it again when the tables
// have rows and statistics. The application may or may not run ANALYZE.
func TestNoStatementScansAfterAnalyze(t *testing.T) {
	s, _, _ := newTestStore(t)
	var in []batch.Batch
	for i := range 2000 {
		in = append(in, newBatch([]string{"a", "b", "c", "d"}[i%4], i))
	}
	require.NoError(t, s.Add(t.Context(), in...))
	_, err := s.Claim(t.Context(), claimQuery("a", "b"), func(l batch.Lane) []batch.Run { return []batch.Run{{0, 1}} })
	require.NoError(t, err)
	var orders []order.Order
	for i := range 2000 {
		orders = append(orders, order.Order{ID: order.ID(strconv.Itoa(i)), Party: batch.ServiceID(strconv.Itoa(i % 3)), Payload: []byte("p")})
		if i%10 == 0 {
			orders[i].Deadline = time.Unix(1e9, 0)
		}
	}
	require.NoError(t, s.AddOrders(t.Context(), orders...))
	_, err = s.ExpireOrders(t.Context(), 100)
	require.NoError(t, err)
	next, err := s.NextOrders(t.Context(), "1", order.NextQuery{Max: 9})
	require.NoError(t, err)
	refs := make([]order.Ref, len(next))
	for i, o := range next {
		refs[i] = order.Ref{ID: o.ID, Version: o.Version}
	}
	done, err := s.PrepareBatch(t.Context(), batch.Batch{Service: "1", ID: "orders", Payload: []byte("p")}, refs)
	require.NoError(t, err)
	require.True(t, done)
	_, err = s.db.Exec("ANALYZE")
	require.NoError(t, err)
	for name, query := range packageStatements(t) {
		t.Run(name, func(t *testing.T) {
			lines := queryPlan(t, s, query)
			assert.Empty(t, badPlanOf(name, lines), "%s\n%s", query, strings.Join(lines, "\n"))
		})
	}
}

// List uses an index for every query that allows one.
func TestListPlans(t *testing.T) {
	s, _, _ := newTestStore(t)
	service := batch.ServiceID("a")
	after := store.CursorAfter(time.Time{}, "a")
	for name, q := range map[string]store.ListQuery{
		"all":              {},
		"an age":           {OlderThan: time.Second, NewerThan: time.Minute},
		"an age in a lane": {Service: &service, OlderThan: time.Second, NewerThan: time.Minute},
		"all, going on":    {After: after},
		"a lane":           {Service: &service},
		"a lane, going on": {Service: &service, After: after},
		"newest":           {NewestFirst: true, After: after},
		"newest of a lane": {Service: &service, NewestFirst: true, After: after},
		"newest of a tag":  {Tag: batch.Tag{Name: "invoice", Value: "4711"}, NewestFirst: true},
		"a tag":            {Tag: batch.Tag{Name: "invoice", Value: "4711"}, After: after},
		"a tag's value":    {Tag: batch.Tag{Value: "4711"}, Service: &service, Open: true},
		"an open lane":     {Service: &service, Open: true, After: after},
	} {
		t.Run(name, func(t *testing.T) {
			lines := queryPlan(t, s, lastStatement(t, s, func() error {
				_, _, err := s.List(t.Context(), q)
				return err
			}))
			for _, l := range lines {
				if strings.HasPrefix(l, "SCAN") {
					assert.Contains(t, l, "USING INDEX dltbatch_batches_created", "in order, up to the limit")
				}
				assert.NotEqual(t, "USE TEMP B-TREE FOR ORDER BY", l)
			}
			if q.OlderThan > 0 {
				assert.Contains(t, strings.Join(lines, "\n"), "created_at>? AND created_at<?")
			}
		})
	}
}

// Statements use an index, in its order if they need an order, and read no further than they must.
func TestIndexesOfStatements(t *testing.T) {
	s, _, _ := newTestStore(t)
	all := packageStatements(t)
	quarantined := lastStatement(t, s, func() error {
		_, _, err := s.List(t.Context(), store.ListQuery{Quarantined: true})
		return err
	})
	for name, c := range map[string]struct {
		query, want string
		sorts       int // how many times the found rows are sorted
	}{
		"attempted rows":         {sqlAttempted, "USING INDEX dltbatch_open_batches_attempted (service_id=?)", 0},
		"what waits in a lane":   {sqlWaiting, "USING INDEX dltbatch_open_batches_lane (service_id=?)", 0},
		"witnesses":              {sqlWitnesses, "USING COVERING INDEX dltbatch_batches_lane (service_id=? AND created_at<?)", 1},
		"what is owned":          {sqlOwned, "USING INDEX dltbatch_open_batches_attempted (service_id=?)", 2},
		"finals":                 {all["sqlFinals"], "USING INDEX dltbatch_batches_id (id_hash=?)", 0},
		"next orders":            {sqlNextOrders, "USING INDEX dltbatch_open_orders_queue (party=?)", 0},
		"a party's load":         {sqlPartiesAfter, "USING INDEX dltbatch_open_orders_queue (party=?)", 0},
		"a party's oldest":       {sqlPartiesAfter, "USING COVERING INDEX dltbatch_open_orders_age (party=?)", 0},
		"orders to split":        {sqlSplitOrders, "USING INDEX dltbatch_open_orders_split (party=?)", 0},
		"orders of a batch":      {rebind(sqlstore.BatchOrders), "USING INDEX dltbatch_open_orders_batch (batch=?)", 1},
		"expired orders":         {sqlExpired, "USING INDEX dltbatch_open_orders_deadline (deadline<?)", 0},
		"any expired order":      {sqlAnyExpired, "USING COVERING INDEX dltbatch_open_orders_deadline (deadline<?)", 0},
		"parties":                {sqlPartiesAfter, "USING COVERING INDEX dltbatch_open_orders_", 0},
		"prunable orders":        {sqlPrunableOrders, "USING COVERING INDEX dltbatch_final_orders_final (final_at<?)", 0},
		"a claim's controls":     {sqlWaiting, "SEARCH c USING PRIMARY KEY (everything=? AND service_id=?)", 0},
		"and once more":          {sqlAttempted, "SEARCH c USING PRIMARY KEY (everything=? AND service_id=?)", 0},
		"a scan's":               {sqlLanesAfter, "SEARCH c USING PRIMARY KEY (everything=? AND service_id=?)", 0},
		"controls":               {all["sqlControls"], "SEARCH c USING PRIMARY KEY (everything=? AND service_id>?)", 0},
		"acts upon a lane":       {all["sqlLaneActs"], "USING PRIMARY KEY (everything=? AND service_id=?)", 0},
		"acts that are old":      {sqlPruneLaneActs, "USING COVERING INDEX dltbatch_lane_acts_at (at<?)", 0},
		"acts upon a batch":      {all["sqlBatchActs"], "USING PRIMARY KEY (batch_seq=?)", 0},
		"attempts":               {all["sqlAttempts"], "USING PRIMARY KEY (batch_seq=?)", 0},
		"attempts, too many":     {sqlTrimAttempts, "USING PRIMARY KEY (batch_seq=? AND position>? AND position<?)", 0},
		"the beginning of an id": {all["sqlFindIDs"], "USING INDEX dltbatch_batches_id (id_hash>? AND id_hash<?)", 0},
		"and of a removed one":   {sqlTombsByID, "USING PRIMARY KEY (header_signature>? AND header_signature<?)", 0},
		"a key in all lanes":     {all["sqlChanges"], "USING INDEX dltbatch_batches_change (data_change_id>? AND data_change_id<?)", 0},
		"and of a removed batch": {all["sqlTombChanges"], "USING COVERING INDEX dltbatch_tombstones_change (data_change_id>? AND data_change_id<?)", 0},
		"a key of a caller":      {sqlSameChange, "USING INDEX dltbatch_batches_change (data_change_id=? AND service_id=?)", 0},
		"an order's key":         {all["sqlFindOrderKeys"], "USING INDEX dltbatch_orders_key (idempotency_key>? AND idempotency_key<?)", 0},
		"the names of lanes":     {all["sqlLanesOfBatches"], "USING COVERING INDEX dltbatch_batches_lane (service_id>? AND service_id<?)", 0},
		"and of parties":         {all["sqlLanesOfOrders"], "USING COVERING INDEX dltbatch_orders_party (party>? AND party<?)", 0},
		"what is prunable":       {sqlPrunable, "USING COVERING INDEX dltbatch_outcomes_final (final_at<?)", 0},
		"what is set aside":      {quarantined, "USING INDEX dltbatch_outcomes_quarantined", 1},
	} {
		lines := strings.Join(queryPlan(t, s, c.query), "\n")
		assert.Contains(t, lines, c.want, name)
		assert.Equal(t, c.sorts, strings.Count(lines, "TEMP B-TREE"), "%s: %s", name, lines)
	}
}

// The recursion of Parties stops at its limit. The one of this test would never end otherwise.
func TestPartiesStopAtTheirLimit(t *testing.T) {
	s, _, _ := newTestStore(t)
	endless := "WITH RECURSIVE parties (party) AS (SELECT 'p' UNION ALL SELECT party || 'p' FROM parties)"
	_, tail, ok := strings.Cut(sqlPartiesFirst, "IS NOT NULL)")
	require.True(t, ok)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	find := func(query string, args ...any) (found []string) {
		require.NoError(t, s.read(ctx, "find", func(ctx context.Context, t *session) (err error) {
			found, err = sqlstore.Query[string](ctx, t, query, args...)
			return err
		}))
		return found
	}
	assert.Equal(t, []string{"p", "pp", "ppp"}, find("SELECT party FROM ("+endless+tail+")", 3, 10))
	for _, statement := range []string{sqlLanesFirst, sqlAllLanesFirst} { // the recursions of Lanes and Counts do, too
		_, tail, ok := strings.Cut(statement, "IS NOT NULL)")
		require.True(t, ok)
		assert.Equal(t, []string{"p", "pp"}, find(strings.NewReplacer("parties", "lanes", "party", "value").Replace(endless)+tail, 2))
	}
}

// ListOrders uses an index for every query that allows one.
func TestListOrdersPlans(t *testing.T) {
	s, _, _ := newTestStore(t)
	party := batch.ServiceID("a")
	after := store.CursorAfter(time.Unix(1, 0), "a")
	for name, q := range map[string]order.ListQuery{
		"all": {}, "all, going on": {After: after}, "a party": {Party: &party}, "a party, going on": {Party: &party, After: after}, "a batch": {Batch: "b"},
	} {
		for _, l := range queryPlan(t, s, lastStatement(t, s, func() error {
			_, _, err := s.ListOrders(t.Context(), q)
			return err
		})) {
			if strings.HasPrefix(l, "SCAN") && l != "SCAN d" {
				assert.Contains(t, l, "USING INDEX dltbatch_orders_created", "%s: in order, up to the limit", name)
			}
			assert.False(t, q.Batch == "" && l == "USE TEMP B-TREE FOR ORDER BY", name)
		}
	}
}
