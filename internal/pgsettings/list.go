// Package pgsettings is the list of PostgreSQL's settings that change what stored data means, what
// is locked, or what survives a crash. Package postgres refuses connections by this list, and the
// command's doctor shows it.
package pgsettings

import "strings"

// Setting is one entry of the list.
type Setting struct {
	Name string
	// valueSQL is the SQL expression for the setting as a text. If it is "", the value is
	// current_setting(Name).
	valueSQL string
	// fits reports whether a store keeps its promises with this value.
	fits func(have string) bool
	// Want is the value that fits, Why is the reason, and Do is how to set it.
	Want, Why, Do string
	// isSetByStore is true if a store sets a fitting value for each of its own transactions.
	// Another value then matters only in a transaction of the application.
	isSetByStore bool
	// isForDurability is true if the value only decides what survives a crash. A store's options
	// may accept other values.
	isForDurability bool
	// isAdvice is true if a store works with any value, and only the doctor shows the setting.
	isAdvice bool
}

func equals(want string) func(string) bool { return func(have string) bool { return have == want } }

// isTimeLimitFrom returns a func that accepts 0, which means no limit, and limits of least or
// more.
func isTimeLimitFrom(least int) func(string) bool {
	return func(have string) bool {
		n := 0
		for _, c := range have {
			n = n*10 + int(c-'0')
		}
		return n == 0 || n >= least
	}
}

const (
	resetAdvice            = "ALTER ROLE or ALTER DATABASE ... RESET it, take it out of the data source name, and open new connections"
	asyncCommitRisk        = "a crash of the server takes back commits, and a batch may be sent twice"
	setOnAdvice            = "set it to on in the server's configuration"
	statementTimeoutAdvice = "set it to 0 or to 5 s at least for this role: claims of many lanes, clean-ups and counts take seconds"
)

// allSettings returns the list.
//
// Some settings need no entry. Transactions set their isolation level themselves. Times and
// numbers are sent as integers and texts, so DateStyle, IntervalStyle, TimeZone,
// extra_float_digits and lc_* have no effect. Errors are told apart by their codes, so lc_messages
// does not matter. A store sets array_nulls and the settings that its plans need for each
// transaction. With default_transaction_read_only writes fail, as it says. With row_security = off
// statements fail instead of hiding rows.
func allSettings() []Setting {
	return []Setting{
		{
			Name: "server_encoding", fits: equals("UTF8"), Want: "UTF8",
			Why: "ids and names are UTF-8", Do: "make a database with the encoding UTF8",
		},
		{
			Name: "client_encoding", fits: equals("UTF8"), Want: "UTF8", isSetByStore: true,
			Why: "the server would store other characters than the driver sent", Do: resetAdvice + "; or set client_encoding=UTF8 there",
		},
		{
			Name: "standard_conforming_strings", fits: equals("on"), Want: "on",
			Why: "a backslash in a text would change its meaning", Do: resetAdvice,
		},
		{
			Name: "bytea_output", fits: equals("hex"), Want: "hex", isSetByStore: true,
			Why: "a driver may misread payloads and hashes", Do: resetAdvice,
		},
		{
			Name: "session_replication_role", fits: func(have string) bool { return have != "replica" }, Want: "origin",
			Why: "the server would check no foreign keys", Do: resetAdvice,
		},
		{
			Name: "synchronous_commit", fits: func(have string) bool { return have != "off" && have != localWithStandbys }, Want: "on", isForDurability: true,
			valueSQL: `current_setting('synchronous_commit') || CASE WHEN current_setting('synchronous_commit') = 'local'
				AND current_setting('synchronous_standby_names') <> '' THEN '` + standbysSuffix + `' ELSE '' END`,
			Why: asyncCommitRisk, Do: "set it to on for the role or the database, and open new connections",
		},
		{
			// The Want above has the other values that do not wait for a standby's disk.
			Name: "synchronous_commit", fits: func(have string) bool { return have != "local" && have != "remote_write" }, Want: "on", isAdvice: true,
			valueSQL: `current_setting('synchronous_commit') || CASE WHEN current_setting('synchronous_commit') = 'local'
				AND current_setting('synchronous_standby_names') <> '' THEN '` + standbysSuffix + `' ELSE '' END`,
			Why: "a commit is not on the disk of a standby that takes over, once there is one", Do: "set it to on for the role or the database, and open new connections",
		},
		{
			Name: "synchronous_standby_names", fits: equals(""), Want: "one that names them", isAdvice: true,
			valueSQL: `(SELECT CASE WHEN count(*) > 0 AND current_setting('synchronous_standby_names') = ''
				THEN 'empty beside ' || count(*) || ' standby(s)' ELSE '' END FROM pg_stat_replication r WHERE r.state IS DISTINCT FROM 'backup'
				AND NOT EXISTS (SELECT 1 FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))`,
			Why: "a standby that takes over may lack the last commits, and batches are gone or are executed twice",
			Do:  "set it, with Patroni by synchronous_mode: true, and see docs/operations.md#lost-commits",
		},
		{
			Name: "default_transaction_read_only", fits: equals("off"), Want: "off", isAdvice: true,
			Why: "nothing is stored, claimed or recorded", Do: "ask who made the database read-only, make room if its disk is full, and then reset it",
		},
		{
			Name: "fsync", fits: equals("on"), Want: "on", isAdvice: true,
			Why: "a crash of the machine destroys the database", Do: setOnAdvice,
		},
		{
			Name: "full_page_writes", fits: equals("on"), Want: "on", isAdvice: true,
			Why: "a crash of the machine may destroy the database", Do: setOnAdvice,
		},
		{
			Name: "zero_damaged_pages", fits: equals("off"), Want: "off", isAdvice: true,
			Why: "the server takes a page that it cannot read for an empty one, and batches vanish", Do: "set it to off in the server's configuration",
		},
		{
			Name: "autovacuum", fits: equals("on"), Want: "on", isAdvice: true,
			Why: "tables grow for ever", Do: setOnAdvice,
		},
		{
			Name: "statement_timeout", valueSQL: timeLimitSQL("statement_timeout"), fits: isTimeLimitFrom(5000), Want: "0, or 5000 ms at least", isAdvice: true,
			Why: "long statements fail again and again", Do: statementTimeoutAdvice,
		},
		{
			Name: "lock_timeout", valueSQL: timeLimitSQL("lock_timeout"), fits: isTimeLimitFrom(1000), Want: "0, or 1000 ms at least", isAdvice: true,
			Why: "calls fail where another transaction holds a row for a moment", Do: "set it to 0 or to 1 s at least for this role",
		},
		{
			Name: "idle_in_transaction_session_timeout", valueSQL: timeLimitSQL("idle_in_transaction_session_timeout"), fits: isTimeLimitFrom(1000),
			Want: "0, or 1000 ms at least", isAdvice: true,
			Why: "a pause of the process between two statements ends a transaction", Do: "set it to 0 or to 1 s at least for this role",
		},
		{
			Name: "search_path", valueSQL: `coalesce((SELECT s.name FROM unnest(current_schemas(true)) WITH ORDINALITY AS s (name, n)
				WHERE left(s.name, 7) <> 'pg_temp' ORDER BY s.n LIMIT 1), '')`, fits: equals("pg_catalog"), Want: "no schema before pg_catalog", isAdvice: true,
			Why: "functions of that schema replace the server's", Do: "take pg_catalog out of search_path: the server then looks there first",
		},
	}
}

// beside is appended to a synchronous_commit that waits for no standby although the server has
// synchronous ones.
const (
	standbysSuffix    = " with synchronous standbys"
	localWithStandbys = "local" + standbysSuffix
)

// timeLimitSQL returns SQL for a time limit in milliseconds. A server without this setting has no
// limit.
func timeLimitSQL(name string) string {
	return `coalesce((SELECT setting FROM pg_settings WHERE name = '` + name + `'), '0')`
}

// Kind is the purpose of a list.
type Kind int

// Kinds of lists.
const (
	// Own is for a connection on which a store begins its own transactions.
	Own Kind = iota
	// Applications is for a transaction that an application began.
	Applications
	// Doctor is for a person: all entries.
	Doctor
)

// List has the entries for one purpose.
type List []Setting

// For returns the entries for a purpose. volatile is true if commits need not survive a crash.
func For(k Kind, volatile bool) List {
	var list List
	for _, s := range allSettings() {
		if k == Doctor || !s.isAdvice && !(s.isSetByStore && k == Own) && !(s.isForDurability && volatile) {
			list = append(list, s)
		}
	}
	return list
}

// Columns returns the values of all entries as columns of a SELECT.
func (l List) Columns() string {
	columns := make([]string, len(l))
	for i, s := range l {
		if columns[i] = s.valueSQL; s.valueSQL == "" {
			columns[i] = `current_setting('` + s.Name + `')`
		}
	}
	return strings.Join(columns, ", ")
}

// Wrong is an entry whose value does not fit.
type Wrong struct {
	Setting
	Have string
}

// Wrong returns the entries that do not fit. have has the values in the order of Columns.
func (l List) Wrong(have []string) []Wrong {
	var wrong []Wrong
	for i, s := range l {
		if !s.fits(have[i]) {
			wrong = append(wrong, Wrong{s, have[i]})
		}
	}
	return wrong
}
