package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/internal/incident"
	"github.com/dltbatch/dltbatch/internal/pgsettings"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// doctorFinding is the result of one of doctor's checks.
type doctorFinding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Do    string `json:"do,omitzero"` // what to do; "" if the finding is good
}

// diagnosis is what "doctor" prints.
type diagnosis struct {
	OK       bool            `json:"ok"`
	Findings []doctorFinding `json:"findings"`
}

// databaseExam collects the findings of one run of doctor.
type databaseExam struct {
	db       *database
	t        target
	findings []doctorFinding
	safeText func(error) string // returns the text of an error without the data source name
}

func (x *databaseExam) addGood(check, format string, args ...any) {
	x.findings = append(x.findings, doctorFinding{Check: check, OK: true, Found: fmt.Sprintf(format, args...)})
}

func (x *databaseExam) addBad(check, do, format string, args ...any) {
	x.findings = append(x.findings, doctorFinding{Check: check, Do: do, Found: fmt.Sprintf(format, args...)})
}

// addFinding adds a finding: a good one if ok, otherwise a bad one with the remedy do.
func (x *databaseExam) addFinding(ok bool, check, do, format string, args ...any) {
	if ok {
		x.addGood(check, format, args...)
	} else {
		x.addBad(check, do, format, args...)
	}
}

// addUnlessEmpty adds a finding: a good one if the list is empty, otherwise a bad one with the
// first entries of the list.
func (x *databaseExam) addUnlessEmpty(check, empty, do string, list []string) {
	const maxShown = 5
	named := strings.Join(list[:min(len(list), maxShown)], ", ")
	if len(list) > maxShown {
		named += ", ..."
	}
	x.addFinding(len(list) == 0, check, do, "%s", map[bool]string{true: empty, false: fmt.Sprintf("%d: %s", len(list), named)}[len(list) == 0])
}

// Limits above which doctor reports a fault.
const (
	maxClockDifference = 2 * time.Second
	maxSnapshotAge     = 10 * time.Minute
	maxDeadRows        = 100_000
	surveyLanes        = 1000
	hearTimeLimit      = 5 * time.Second
)

func (a *app) doctor() *cobra.Command {
	c := &cobra.Command{
		Use: "doctor [flags]", Short: "What is wrong, with the set-up too, and what to do",
		Long: `Looks at the schema, the settings of the server, its clock beside this machine's, a pooler, vacuum
and held snapshots, at all that dltbatch causes begins with, and at the instances, their versions
and settings, and says what to do about each. It tries whether hints of other processes are heard,
which nothing rests on. It changes nothing. Settings are compared for the ledgers of the first
1,000 lanes with work. Exit code 6 says that something was found. The JSON is an object with "ok"
and "findings", each with "check", "ok", "found" and "do".`,
	}
	return a.databasesCommand(c, func(ctx context.Context, all *databases, _ []string) error {
		answers, err := askAll(ctx, all, func(ctx context.Context, db *database) (diagnosis, error) {
			x := &databaseExam{db: db, t: db.t, safeText: a.safeText}
			err := x.checkAll(ctx)
			return diagnosis{OK: !slices.ContainsFunc(x.findings, func(f doctorFinding) bool { return !f.OK }), Findings: x.findings}, err
		})
		if err != nil {
			return err
		}
		list := joinFindings(answers)
		troubles := 0
		for _, f := range list {
			if !f.OK {
				troubles++
			}
		}
		answer := any(answers[0].Value)
		if all.areSeveral() {
			answer = shardAnswers[diagnosis]{desks.WithoutErrors(answers)}
		}
		err = a.print(answer, func(p *page) {
			heads := []string{"", "CHECK", "FOUND"}
			if all.areSeveral() {
				heads = append(heads, "SHARDS")
			}
			t := p.table(heads...)
			for _, f := range list {
				mark := "ok"
				if !f.OK {
					mark = "!!"
				}
				cells := []any{mark, f.Check, f.Found}
				if all.areSeveral() {
					cells = append(cells, desks.NameShards(f.shards, len(answers)))
				}
				t.row(alarmStyle(!f.OK), cells...)
			}
			t.finish()
			for _, f := range list {
				if f.Do != "" {
					p.line("")
					do, command, _ := strings.Cut(f.Do, "\n")
					p.line("%s: %s", f.Check, do)
					if command != "" {
						p.line("%s", command)
					}
				}
			}
		})
		if err == nil && troubles > 0 {
			return fmt.Errorf("%w: doctor found trouble in %s", errLeft, incident.Count(troubles, "place", "places"))
		}
		return err
	})
}

// shardFinding is a finding with the shards that it applies to.
type shardFinding struct {
	doctorFinding
	shards []int
}

// joinFindings joins findings that several shards have in common.
func joinFindings(answers []desks.Answer[diagnosis]) (list []shardFinding) {
	places := map[doctorFinding]int{}
	for _, x := range desks.WithoutErrors(answers) {
		for _, f := range x.Value.Findings {
			at, known := places[f]
			if !known {
				at, list = len(list), append(list, shardFinding{doctorFinding: f})
				places[f] = at
			}
			list[at].shards = append(list[at].shards, x.Shard)
		}
	}
	return list
}

func (x *databaseExam) checkAll(ctx context.Context) error {
	if x.db.postgres != nil || x.db.sqlite != nil {
		s, _, err := x.db.schema(ctx)
		if errors.Is(err, store.ErrUnreleasedSchema) {
			x.addBad("schema", "make a new database, and dltbatch migrate up", "%s", x.safeText(err))
			return x.checkServer(ctx)
		}
		if err != nil {
			return err
		}
		do := "dltbatch migrate up, before the new code"
		if s.Have > s.Want {
			do = "use a newer dltbatch"
		}
		x.addFinding(s.Current, "schema", do, "version %d; this program knows %d", s.Have, s.Want)
		if !s.Current {
			return x.checkServer(ctx) // the role may not read a table
		}
	}
	if err := x.checkServer(ctx); err != nil {
		return err
	}
	for _, look := range []struct {
		check string
		run   func(context.Context) error
	}{{"incidents", x.checkIncidents}, {"instances", x.checkInstances}, {"settings", x.checkSettings}, {"upkeep", x.checkUpkeep}, {"hints", x.checkHints}} {
		if err := look.run(ctx); ctx.Err() != nil {
			return err
		} else if err != nil { // a setting or a schema with which the store refuses to work
			x.addBad(look.check, "mend the findings above, and ask again", "cannot be looked at: %s", x.safeText(err))
		}
	}
	return nil
}

// checkServer checks the PostgreSQL server itself.
func (x *databaseExam) checkServer(ctx context.Context) error {
	if x.db.postgres == nil {
		return nil
	}
	for _, look := range []func(context.Context) error{x.checkServerSettings, x.checkClock, x.checkPooler, x.checkSnapshots, x.checkVacuum} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkServerSettings checks the settings on which a store's promises depend. The list of settings
// is the store's own.
func (x *databaseExam) checkServerSettings(ctx context.Context) error {
	list := pgsettings.For(pgsettings.Doctor, false)
	var version, number string
	var standby bool
	have := make([]string, len(list))
	into := []any{&version, &number, &standby}
	for i := range have {
		into = append(into, &have[i])
	}
	if err := x.db.postgres.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num'), pg_is_in_recovery(), `+
		list.Columns()).Scan(into...); err != nil {
		return err
	}
	x.addFinding(pgsettings.Tested(number), "server", "use PostgreSQL "+pgsettings.TestedVersions()+": dltbatch was not tested with this version", "PostgreSQL %s", version)
	x.addFinding(!standby, "role of the server", "name all servers in the data source name, with target_session_attrs=read-write, or name the primary",
		"%s", map[bool]string{false: "it takes writes", true: "a standby: it takes no writes, and may lag"}[standby])
	wrong := list.Wrong(have)
	for _, w := range wrong {
		x.addBad(w.Name, w.Do, "%s, want %s: %s", w.Have, w.Want, w.Why)
	}
	if len(wrong) == 0 {
		x.addGood("settings", "all %d that matter are right", len(list))
	}
	return nil
}

func (x *databaseExam) checkClock(ctx context.Context) error {
	before := time.Now()
	var now time.Time
	if err := x.db.postgres.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return err
	}
	trip := time.Since(before)
	apart := now.Sub(before.Add(trip / 2)).Abs()
	x.addFinding(apart < maxClockDifference+trip, "clock", "keep both in step with NTP: claims go by the database's clock, and an instance on this machine would give them up too early or too late",
		"the database's clock and this machine's are %s apart, measured to %s", apart.Round(time.Millisecond), trip.Round(time.Millisecond))
	return nil
}

// checkPooler checks whether a pooler stands in front of the server. When a connection begins,
// PostgreSQL sends the number of its process, and PgBouncer sends a number of its own.
func (x *databaseExam) checkPooler(ctx context.Context) error {
	conn, err := x.db.postgres.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var pid uint32
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return err
	}
	if pid == conn.Conn().PgConn().PID() {
		x.addGood("pooler", "none")
		return nil
	}
	mode := conn.Conn().Config().DefaultQueryExecMode.String()
	ok := mode == "exec" || mode == "simple protocol"
	x.addFinding(ok, "pooler", "in transaction mode set default_query_exec_mode=exec in the DSN with pgx, binary_parameters=yes with lib/pq", "there is one between; this DSN's mode is %q", mode)
	return nil
}

func (x *databaseExam) checkSnapshots(ctx context.Context) error {
	const query = `SELECT pid, coalesce(application_name, ''), coalesce(state, ''), extract(epoch FROM clock_timestamp() - xact_start)::float8
	FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
		AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start < clock_timestamp() - make_interval(secs => $1)
	ORDER BY xact_start LIMIT 1`
	var pid int
	var application, state string
	var seconds float64
	rows, err := x.db.postgres.Query(ctx, query, maxSnapshotAge.Seconds())
	if err != nil {
		return err
	}
	defer rows.Close()
	held := rows.Next()
	if held {
		if err := rows.Scan(&pid, &application, &state, &seconds); err != nil {
			return err
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	if held {
		x.addBad("held snapshot", "end that transaction (pg_terminate_backend), and set idle_in_transaction_session_timeout: vacuum cannot clean up, and tables grow",
			"process %d (%s, %s) has had a transaction open for %s", pid, application, state, ageText(time.Duration(seconds*float64(time.Second))))
	} else {
		sees := false
		if err := x.db.postgres.QueryRow(ctx, `SELECT pg_has_role('pg_read_all_stats', 'USAGE')`).Scan(&sees); err != nil {
			return err
		}
		who := ""
		if !sees {
			who = " of this role; grant it pg_read_all_stats to see those of others"
		}
		x.addGood("held snapshot", "no transaction is older than %s%s", ageText(maxSnapshotAge), who)
	}
	var slots []string
	if err := x.db.postgres.QueryRow(ctx, `SELECT coalesce(array_agg(slot_name::text ORDER BY slot_name), '{}') FROM pg_replication_slots
		WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL OR restart_lsn IS NOT NULL)`).Scan(&slots); err != nil {
		return err
	}
	x.addUnlessEmpty("replication slots", "none is out of use", "start their standbys again, or drop them (pg_drop_replication_slot): they are not in use, and hold rows and log", slots)
	return nil
}

func (x *databaseExam) checkVacuum(ctx context.Context) error {
	schema := x.t.schemaName()
	var worst string
	var dead, live int64
	rows, err := x.db.postgres.Query(ctx, `SELECT relname::text, n_dead_tup, n_live_tup FROM pg_stat_user_tables
		WHERE schemaname = $1 AND n_dead_tup > $2 AND n_dead_tup > n_live_tup ORDER BY n_dead_tup DESC LIMIT 1`, schema, int64(maxDeadRows))
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		if err := rows.Scan(&worst, &dead, &live); err != nil {
			return err
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	if worst != "" {
		x.addBad("vacuum", "look for a held snapshot first; then VACUUM the table, and let autovacuum run more often", "%s has %d dead rows and %d live ones", worst, dead, live)
		return nil
	}
	x.addGood("vacuum", "no table is mostly dead rows")
	return nil
}

// checkIncidents adds the present incidents, the same as every other command shows.
func (x *databaseExam) checkIncidents(ctx context.Context) error {
	s, err := x.db.situation(ctx)
	if err != nil {
		return err
	}
	for _, i := range s.Incidents {
		do := i.Do
		if i.Command != "" && i.Command != "dltbatch doctor" {
			do += "\n  $ " + i.Command
		}
		x.addBad(string(i.Kind), do, "%s", strings.TrimSpace(i.Text+sinceText(i)+" "+i.Why))
	}
	switch {
	case s.Causes.Incomplete:
		x.addBad("incidents", "look for longer\n  $ dltbatch causes --within 1m", "%s: the time was over", string(operator.StatePart))
	case len(s.Incidents) == 0:
		x.addGood("incidents", "none")
	}
	return nil
}

// checkInstances checks the instances that run.
func (x *databaseExam) checkInstances(ctx context.Context) error {
	s, err := x.db.stats(ctx, false)
	if err != nil {
		return err
	}
	var versions, shared []string // of live instances
	for _, i := range s.Instances {
		if i.Live {
			versions = append(versions, i.Version)
		}
		if i.Live && i.Shared {
			shared = append(shared, i.Name)
		}
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) > 0 {
		x.addFinding(len(versions) == 1, "versions", "finish the deploy, or find out why an old process is still there (dltbatch instances)", "%s", strings.Join(versions, ", "))
	}
	x.addUnlessEmpty("names of instances", "none is shared", "give each instance its own Options.Instance", shared)
	return nil
}

// checkSettings checks the recorded settings, also those that no waiting batch needs.
func (x *databaseExam) checkSettings(ctx context.Context) error {
	if slices.ContainsFunc(x.findings, func(f doctorFinding) bool { return f.Check == string(operator.IncidentDisagree) }) {
		return nil // an incident says so already
	}
	sv, err := x.db.Store.Survey(ctx, store.SurveyQuery{Start: true, Limit: surveyLanes})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	var disagree []string
	for _, l := range sv.Lanes {
		if l.Ledger == "" || known[l.Ledger] {
			continue
		}
		known[l.Ledger] = true
		r, err := x.db.desk.Settings(ctx, l.Service)
		if err != nil {
			return err
		}
		if r.Disagree {
			disagree = append(disagree, fmt.Sprintf("%q (for example %s)", batch.Excerpt(l.Ledger, 64), batch.Only(l.Service)))
		}
	}
	x.addUnlessEmpty("settings of instances", "nobody disagrees", "dltbatch settings SERVICE shows both; correct the instance that is wrong, then dltbatch agree SERVICE", disagree)
	return nil
}

// checkUpkeep adds the warnings of the store itself.
func (x *databaseExam) checkUpkeep(ctx context.Context) error {
	warnings, err := x.db.Store.Upkeep(ctx)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		x.addBad("store: "+w.Name, "see the text, and docs/operations.md#held-snapshots", "%s", w.Err)
	}
	if len(warnings) == 0 {
		x.addGood("store", "it has no warnings")
	}
	return nil
}

// checkHints checks whether this program receives the hints of other processes. No promise depends
// on hints, so without them the finding is still good.
func (x *databaseExam) checkHints(ctx context.Context) error {
	hearing, stop := context.WithTimeout(ctx, hearTimeLimit)
	defer stop()
	var live atomic.Pointer[string] // the way by which hints arrive
	err := x.db.Store.Hear(hearing, store.Listener{
		ID: rand.Text(), Wants: store.TopicLanes, Heard: func(store.Hint) {},
		Live: func(way string) {
			live.Store(&way)
			stop()
		},
	})
	switch {
	case live.Load() != nil:
		x.addGood("hints", "heard with this data source name (%s)", *live.Load())
	case ctx.Err() != nil:
		return err
	default:
		x.addGood("hints", "not heard with this data source name (%s): an instance with the same one finds what other processes do by its scans", x.safeText(err))
	}
	return nil
}
