package integration

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// statements returns the statements of the store's query files, and of the files that the SQL
// stores share: the constants whose names begin with "sql".
func statements(t *testing.T) map[string]string {
	found := constants(t)
	maps.DeleteFunc(found, func(name, _ string) bool { return !strings.HasPrefix(name, "sql") })
	require.Greater(t, len(found), 30)
	return found
}

func constants(t testing.TB) map[string]string {
	exprs := map[string]ast.Expr{}
	const folder = "../../store/postgres/"
	files, err := filepath.Glob(folder + "*queries.go")
	require.NoError(t, err)
	for _, name := range append(files, "../../internal/sqlstore/queries.go", "../../internal/sqlstore/findqueries.go") {
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
		found[name] = eval(e)
	}
	return found
}

var (
	tableToken = regexp.MustCompile(`\{([a-z_]+)\}`)
	paramToken = regexp.MustCompile(`\$\d+::(\w+)(\[\])?`)
)

// sampleParams returns parameter values as in calls with n elements.
func sampleParams(n int) map[string]string {
	var numbers, lanes, places, hashes []string
	for i := range n {
		places = append(places, fmt.Sprintf(`"(%d,1)"`, i*7))
		numbers = append(numbers, strconv.Itoa(i*31+1))
		hashes = append(hashes, fmt.Sprintf("%032x", i*31+1))
		lanes = append(lanes, fmt.Sprintf("lane%04d", i*7))
	}
	return map[string]string{
		"bigint[]": "{" + strings.Join(numbers, ",") + "}", "integer[]": "{" + strings.Join(numbers, ",") + "}",
		"smallint[]": "{1,2}", "boolean[]": "{t}", "text[]": "{" + strings.Join(lanes, ",") + "}",
		"text": "lane0100", "bigint": "20", "bytea": "", "boolean": "f",
		"smallint": "7", "tid[]": "{" + strings.Join(places, ",") + "}", "uuid": hashes[0], "uuid[]": "{" + strings.Join(hashes, ",") + "}",
	}
}

// fill puts rows into all tables, as if added, attempted or finished long ago.
func (s *testSpace) fill(waiting, attempted, final int) {
	table := func(name string) string { return s.schema + "." + name }
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT i, md5(i::text)::uuid, md5(i::text) || md5('x' || i), 'lane' || lpad((i %% 1000)::text, 4, '0'), 1000000 + i, '', '',
		false, '\x00', 0, false, NULL, decode(repeat('00', 100), 'hex') FROM generate_series(1, %d) i`, table("batches"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT service_id, created_at, seq, 1, false FROM %s WHERE seq <= %d`, table("waiting_batches"), table("batches"), waiting))
	s.exec(fmt.Sprintf(`INSERT INTO %s (seq, service_id, created_at, state, version, attempt, spent, failures, claim_expires, not_before, next_check, due_at,
		asked_at, last_post, settles_at, doubt_attempt, doubt_since, resend_until, resends, refused, requeued, submission_error_message, decision, receipts,
		claimed_by, claim_ttl, moved_at, rollbacks, seen_attempt, seen_endpoint)
		SELECT seq, service_id, created_at, 3, 3, 1, 0, 0, 0, 0, 0, 9000000000000000000, 0, 0, 0, 0, 0, 0, 0, false, false, '', '', 0, '', 0, 0, 0, 0, ''
		FROM %s WHERE seq > %d AND seq <= %d`, table("attempted_batches"), table("batches"), waiting, waiting+attempted))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 7, 4, 1, 0, 0, 0, 0, 0, created_at, false, NULL, '', 0 FROM %s WHERE seq > %d`,
		table("outcomes"), table("batches"), waiting+attempted))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 0, header_signature, '', '', '' FROM %s`, table("transactions"), table("batches")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 'invoice', (seq / 10)::text, created_at FROM %s`, table("batch_tags"), table("batches")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 'shop', (seq %% 3)::text, created_at FROM %s`, table("batch_tags"), table("batches")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 0, '', true, '', '' FROM %s`, table("transaction_receipts"), table("batches")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT md5('gone' || i)::uuid, md5('gone' || i), '', '', 0, '', 0, 0, 0, 0, 0, NULL, '' FROM generate_series(1, %d) i`, table("tombstones"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT DISTINCT service_id FROM %s UNION SELECT md5(i::text) FROM generate_series(1, %d) i`, table("services"), table("batches"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT 'served', service_id, 1, 1, 1, 'ledger' FROM %s`, table("texts"), table("services")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT 'traits', 'ledger' || i, 1, 1, 1, '{}' FROM generate_series(1, 2000) i`, table("texts")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT 'instance', 'i' || i, 1, 1, 1, '{}' FROM generate_series(1, 1000) i`, table("texts")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT 'lane' || lpad(i::text, 4, '0'), '', 0, 0, 0, 0, '' FROM generate_series(1, 2000) i`, table("streams")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT 'lane' || lpad((i %% 2000)::text, 4, '0'), 'id' || i, 1000000 + i FROM generate_series(1, %d) i`,
		table("stream_ids"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`SELECT setval('%s', %d)`, table("batch_seq"), waiting+attempted+final))
	for _, name := range []string{"batch_acts", "attempts"} {
		values := "'cancel', 'me', '', 0, 2, 9"
		if name == "attempts" {
			values = "1, 0, 'busy', 503, 0, '', 0, '', ''"
		}
		s.exec(fmt.Sprintf(`INSERT INTO %s SELECT i, k, %s FROM generate_series(1, %d) i, generate_series(1, 2) k`, table(name), values, waiting+attempted+final))
	}
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT false, 'paused' || i, 1, 'me', '', 0, 0, '', '', 1 FROM generate_series(1, %d) i`, table("controls"), waiting+attempted))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT false, 'paused' || i, 1, 'pause', 'me', '', i, '', 0 FROM generate_series(1, %d) i`, table("lane_acts"), waiting+attempted))
	// Some orders wait, fewer are in flight, and the others are finished.
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT i, md5('o' || i), 'lane' || lpad((i %% 1000)::text, 4, '0'), 1000000 + i, CASE WHEN i %% 3 = 0 THEN 'key' || i ELSE '' END,
		i %% 4, false, CASE WHEN i %% 5 = 0 THEN 9000000000000000 ELSE 0 END, '\x00', decode(repeat('00', 100), 'hex') FROM generate_series(1, %d) i`, table("orders"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, party, priority, created_at, deadline, urgent, 100, 1, 1, '', 0, 0, '' FROM %s WHERE seq <= %d`,
		table("open_orders"), table("orders"), waiting))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, party, priority, created_at, deadline, urgent, 100, 2, 2, 'batch' || seq %% 1000, 0, 1, '' FROM %s WHERE seq > %d AND seq <= %d`,
		table("open_orders"), table("orders"), waiting, waiting+attempted))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 3, 3, 'batch' || seq %% 100000, 0, 1, '', created_at, NULL, '' FROM %s WHERE seq > %d`,
		table("final_orders"), table("orders"), waiting+attempted))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT i, 'lane' || lpad(i::text, 4, '0') FROM generate_series(1, 500) i`, table("unsettled_batches")))
}

func explainPlan(t *testing.T, db *sql.DB, statement string) string {
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+statement)
	require.NoError(t, err, statement)
	defer func() { require.NoError(t, rows.Close()) }()
	var lines []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	return strings.Join(lines, "\n")
}

// allowedReads lists the statements that are allowed to read a whole table, with the table.
var allowedReads = map[string]string{
	"sqlDue":          "attempted_batches", // all recently claimed batches may be due
	"sqlLookDue":      "attempted_batches",
	"sqlAnyOpen":      "waiting_batches attempted_batches", // EXISTS reads one row
	"sqlAnyAttempted": "attempted_batches",
	"sqlAnyBuried":    "tombstones",  // EXISTS reads the first row
	"sqlAdders":       "pg_database", // a table of the server
	// This table is as large as the work in flight.
	"sqlSettleable":      "unsettled_batches",
	"sqlDeleteUnsettled": "unsettled_batches",
	// There are few streams, and a prune names most of them.
	"sqlLockStreams": "streams",
	"sqlRaiseSince":  "streams",
	// One process of all counts the open batches from time to time, and no call waits for it.
	"sqlCountOpen":    "waiting_batches attempted_batches controls open_orders dltbatch_schema",
	"sqlRaiseNumbers": "batch_seq", "sqlRaiseOrderNumbers": "orders_seq", // a sequence is one row
}

// The planner chooses good plans in a database with a backlog and a history, without statistics
// and with fresh ones. Filling the tables takes most of the test's time, so all plans are checked
// in one test.
func TestPlans(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	s.store()
	for name := range strings.SplitSeq(s.tables("true"), ", ") {
		// Autovacuum would make statistics, too. Unlogged tables are filled faster.
		s.exec(`ALTER TABLE ` + name + ` SET (autovacuum_enabled = off), SET UNLOGGED`)
	}
	s.fill(60_000, 10_000, 70_000)
	for _, statistics := range []string{"none", "fresh"} {
		if statistics == "fresh" {
			s.analyze("ANALYZE")
		}
		t.Run(statistics+"/scans", func(t *testing.T) { checkNoScans(t, s) })
		t.Run(statistics+"/lanes", func(t *testing.T) { checkPlans(t, s, lanePlans) })
		t.Run(statistics+"/orders", func(t *testing.T) { checkPlans(t, s, orderPlans) })
	}
	t.Run("parties", func(t *testing.T) { checkPartiesReads(t, s) })
}

// No statement of the store reads through data that grows with the backlog or with history
// (docs/design.md#promise-9-cost).
func checkNoScans(t *testing.T, s *testSpace) {
	for name, statement := range statements(t) {
		if strings.HasPrefix(statement, "SET ") {
			continue
		}
		for _, calls := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s/%d", name, calls), func(t *testing.T) {
				got := explainPlan(t, s.admin, s.filledIn(t, statement, calls))
				for line := range strings.SplitSeq(got, "\n") {
					_, of, is := strings.Cut(line, "Seq Scan on ")
					if !is {
						continue
					}
					of, _, _ = strings.Cut(of, " ")
					assert.Contains(t, strings.Fields(allowedReads[name]), of, got)
				}
			})
		}
	}
}

// filledIn returns a statement with its tables, and with parameter values as in a call.
func (s *testSpace) filledIn(t *testing.T, statement string, calls int) string {
	values := sampleParams(calls)
	text := tableToken.ReplaceAllString(statement, s.schema+".$1")
	return paramToken.ReplaceAllStringFunc(text, func(p string) string {
		_, kind, _ := strings.Cut(p, "::")
		require.Contains(t, values, kind)
		return "'" + values[kind] + "'::" + kind
	})
}

// lanePlans lists parts of plans: statements that look back or ask for lanes use their index, and
// read no further than they must.
var lanePlans = map[string][]string{
	"sqlWitnesses": {"Index Scan Backward using batches_lane", "Limit"},
	// The lanes are looked up only if an order key is ahead of the clock.
	"sqlBeforeAdd":    {"One-Time Filter", "using batches_created", "using batches_lane", "Limit"},
	"sqlBeforeOrders": {"One-Time Filter", "using orders_created", "using orders_party", "Limit"},
	"sqlOwned":        {"using attempted_batches_lane", "using attempted_batches_pkey"},
	"sqlLookOwned":    {"using attempted_batches_lane", "using attempted_batches_pkey"},
	// Of the final batches a count reads only those that a policy set aside.
	"sqlCountOpen": {"using outcomes_quarantined"},
}

// orderPlans lists parts of plans: the loops of auto-batching use the indexes of waiting orders,
// of claims that may expire and of orders in flight, and read no further than they must.
var orderPlans = map[string][]string{
	"sqlNextOrders":      {"using open_orders_queue", "Limit"},
	"sqlPartiesAfter":    {"using open_orders_queue", "using open_orders_age", "using open_orders_split", "Recursive Union", "Limit"},
	"sqlSplitOrders":     {"using open_orders_split"},
	"sqlExpired":         {"using open_orders_deadline", "Limit"},
	"sqlBatchOrders":     {"using open_orders_batch"},
	"sqlLockBatchOrders": {"using open_orders_batch", "using open_orders_pkey"},
	"sqlLockOrders":      {"using orders_id", "using open_orders_pkey"},
	"sqlOrderRows":       {"using orders_id", "using open_orders_pkey", "using final_orders_pkey"},
	"sqlPrunableOrders":  {"using final_orders_final", "Limit"},
}

// checkPlans checks that the plans of the statements have these parts.
func checkPlans(t *testing.T, s *testSpace, want map[string][]string) {
	all := statements(t)
	for name, parts := range want {
		got := explainPlan(t, s.admin, s.filledIn(t, all[name], 3))
		uses := strings.ReplaceAll(got, "Bitmap Index Scan on ", "using ")
		for _, w := range parts {
			assert.Contains(t, uses, w, "%s\n%s", name, got)
		}
	}
}

// Parties stops at its limit: it looks up only the parties that it returns and those that it
// skips, however many there are.
func checkPartiesReads(t *testing.T, s *testSpace) {
	text := tableToken.ReplaceAllString(statements(t)["sqlPartiesFirst"], s.schema+".$1")
	text = strings.NewReplacer("$1::bigint", "3::bigint", "$2::bigint", "10::bigint").Replace(text)
	got := explainPlan(t, s.admin, "(ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+text)
	at := regexp.MustCompile(`CTE Scan on parties p.*\(actual rows=(\d+)`).FindStringSubmatch(got)
	require.NotNil(t, at, got)
	// lane0000 has no batch, and lane0001 to lane0500 have batches; after these come three lanes
	// without a batch.
	assert.Equal(t, "3", at[1], got)
	removed := regexp.MustCompile(`Rows Removed by Filter: (\d+)`).FindStringSubmatch(got)
	require.NotNil(t, removed, got)
	assert.Equal(t, "500", removed[1], got)
}

// keptStatements are the statements of store/postgres whose plans the server keeps: see
// keptPlanWatcher.
var keptStatements = []string{"sqlLockLanes", "sqlAdders", "sqlLanesThere", "sqlNewLanes", "sqlAttempted", "sqlWaiting", "sqlClaimable", "sqlTake", "sqlSeqs",
	"sqlPayloads", "sqlNowBrisk", "sqlAdvance", "sqlFinish", "sqlShard"}

// A kept plan that was made when all tables were empty does not read whole tables that have grown
// since: it reaches every table by a condition on an index, or by a place.
func TestKeptPlans(t *testing.T) {
	t.Parallel()
	s := newSpace(t, pgx)
	s.store()
	c, err := s.admin.Conn(t.Context())
	require.NoError(t, err)
	defer c.Close()
	exec := func(q string) {
		_, err := c.ExecContext(t.Context(), q)
		require.NoError(t, err, q)
	}
	_, settings, _ := strings.Cut(constants(t)["beginKept"], "; ")
	require.Contains(t, settings, "generic")
	// A database or role may switch these methods off: the plans below must not depend on that.
	for _, method := range []string{"nestloop", "indexscan", "tidscan"} {
		exec("SET enable_" + method + " = off")
	}
	exec(strings.ReplaceAll(settings, "', true)", "', false)"))
	all := statements(t)
	for _, statistics := range []string{"none", "of empty tables"} {
		if statistics != "none" {
			s.analyze("VACUUM ANALYZE")
		}
		for _, name := range keptStatements {
			text := tableToken.ReplaceAllString(all[name], s.schema+".$1")
			kinds := map[string]string{}
			for _, m := range paramToken.FindAllStringSubmatch(text, -1) {
				number, _, _ := strings.Cut(m[0], "::")
				kinds[number] = m[1] + m[2]
			}
			args := make([]string, len(kinds))
			for i := range args {
				kind := kinds[fmt.Sprintf("$%d", i+1)]
				args[i] = "'" + sampleParams(3)[kind] + "'::" + kind
			}
			given := ""
			if len(args) > 0 {
				given = "(" + strings.Join(args, ", ") + ")"
			}
			exec("PREPARE kept AS " + text)
			rows, err := c.QueryContext(t.Context(), "EXPLAIN (FORMAT JSON) EXECUTE kept"+given)
			require.NoError(t, err)
			require.True(t, rows.Next())
			var plans []struct{ Plan planNode }
			var encoded []byte
			require.NoError(t, rows.Scan(&encoded))
			require.NoError(t, rows.Close())
			require.NoError(t, json.Unmarshal(encoded, &plans))
			for _, n := range plans[0].Plan.withDescendants() {
				switch {
				case strings.HasPrefix(n.Type, "Index"):
					assert.NotEmpty(t, n.IndexCond, "%s, statistics: %s\n%s", name, statistics, encoded)
					// The condition must be on the first column of the index.
					first := map[string]string{
						"attempted_batches_pkey": "(seq = ", "batches_pkey": "(seq = ", "attempted_batches_lane": "(service_id = ", "batches_id": "(id_hash = ",
						"waiting_batches_pkey": "(service_id = ", "services_pkey": "(service_id = ", "controls_pkey": "((everything = ",
						"pg_database_datname_index": "(datname = ", "texts_pkey": "((kind = ",
					}[n.Index]
					require.NotEmpty(t, first, n.Index)
					assert.True(t, strings.HasPrefix(strings.TrimLeft(n.IndexCond, "("), strings.TrimLeft(first, "(")), "%s, statistics: %s\n%s", name, statistics, encoded)
				case strings.HasSuffix(n.Type, "Sort"): // sorts the values of the call, not a lane
					assert.Equal(t, "sqlNewLanes", name, "statistics: %s\n%s", statistics, encoded)
				case strings.Contains(n.Type, "Scan"):
					assert.Contains(t, []string{"Function Scan", "CTE Scan", "Subquery Scan", "Tid Scan"}, n.Type, "%s, statistics: %s\n%s", name, statistics, encoded)
				}
			}
			exec("DEALLOCATE kept")
		}
	}
}

// planNode is a node of a plan, in EXPLAIN's JSON format.
type planNode struct {
	Type      string `json:"Node Type"`
	Index     string `json:"Index Name"`
	IndexCond string `json:"Index Cond"`
	Plans     []planNode
}

func (n planNode) withDescendants() []planNode {
	out := []planNode{n}
	for _, p := range n.Plans {
		out = append(out, p.withDescendants()...)
	}
	return out
}
