package moving

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/internal/pgsettings"
)

// maxClockDifference is the most by which the clocks of both servers may differ, because order
// keys and claims depend on them.
const maxClockDifference = 2 * time.Second

// checkBeforeMove finds out whether the move can be carried out, before anything is changed.
func (m *Move) checkBeforeMove(ctx context.Context, f facts) error {
	if f.newTables {
		return refuse("the new database has tables of a store in the schema already")
	}
	for _, s := range []*side{m.old, m.new} {
		if err := s.checkSettings(ctx); err != nil {
			return err
		}
	}
	switch have, err := m.old.store.Schema(ctx); {
	case err != nil:
		return err
	case have.Have != have.Want:
		return refuse("the old database is at version %d of the schema, and this program makes version %d", have.Have, have.Want)
	}
	for _, place := range []struct {
		s    *side
		name string
	}{{m.old, m.old.movedSchema()}, {m.new, m.new.arrivingSchema()}} {
		var found bool
		if err := place.s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)`, place.name).Scan(&found); err != nil {
			return err
		}
		if found {
			return refuse("%s has a schema %q, which an earlier move has left: drop it (DROP SCHEMA %q CASCADE), once you are sure that nobody needs it", place.s.displayName, place.name, place.name)
		}
	}
	if err := m.checkOwners(ctx); err != nil {
		return err
	}
	return m.checkClocks(ctx)
}

// checkSettings returns an error for a database that takes no writes, or whose settings break a
// promise of the store.
func (s *side) checkSettings(ctx context.Context) error {
	list := pgsettings.For(pgsettings.Own, false)
	have := make([]string, len(list))
	var standby bool
	into := []any{&standby}
	for i := range have {
		into = append(into, &have[i])
	}
	if err := s.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), `+list.Columns()).Scan(into...); err != nil {
		return err
	}
	if standby {
		return refuse("%s is a standby: name the primary", s.displayName)
	}
	for _, w := range list.Wrong(have) {
		return refuse("%s has %s %q, want %s: %s: %s", s.displayName, w.Name, w.Have, w.Want, w.Why, w.Do)
	}
	return nil
}

// checkOwners returns an error for roles that could not carry out the move, or after which the
// application could not use the tables.
func (m *Move) checkOwners(ctx context.Context) error {
	var owner, user string
	var mine, create bool
	if err := m.old.pool.QueryRow(ctx, `SELECT pg_get_userbyid(c.relowner)::text, pg_has_role(c.relowner, 'USAGE'),
		has_database_privilege(current_database(), 'CREATE') AND has_schema_privilege($1, 'CREATE')
		FROM pg_class c WHERE c.oid = to_regclass($2)`, m.old.schema, m.old.quotedTable(m.old.schema, "batches")).Scan(&owner, &mine, &create); err != nil {
		return err
	}
	if !mine || !create {
		return refuse("the role on the old server may not take the tables away: it must act for their owner, %s, and be allowed to make schemas in the database and tables in the schema", owner)
	}
	if err := m.new.pool.QueryRow(ctx, `SELECT current_user::text, has_database_privilege(current_database(), 'CREATE')`).Scan(&user, &create); err != nil {
		return err
	}
	switch {
	case owner != user:
		return refuse("the tables belong to %s on the old server, and would belong to %s on the new one: connect to the new one as their owner", owner, user)
	case !create:
		return refuse("the role %s may not make a schema on the new server", user)
	}
	return nil
}

// checkClocks compares the clocks of both servers.
func (m *Move) checkClocks(ctx context.Context) error {
	read := func(s *side) (ahead, trip time.Duration, err error) {
		var now time.Time
		before := time.Now()
		err = s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
		trip = time.Since(before)
		return now.Sub(before.Add(trip / 2)), trip, err
	}
	old, slow, err := read(m.old)
	if err != nil {
		return err
	}
	fresh, slower, err := read(m.new)
	if err != nil {
		return err
	}
	if apart := (fresh - old).Abs(); apart > maxClockDifference+slow+slower {
		return refuse("the clocks of both servers are %s apart: keep them in step with NTP", apart.Round(time.Millisecond))
	}
	return nil
}

// grant is a right to the schema or to a table or sequence in it.
type grant struct {
	Object          string  // "" for the schema itself
	Kind            string  // kind of the object, as in GRANT
	Role            *string // nil for PUBLIC
	Privilege       string
	WithGrantOption bool // whether the role may grant it to others
}

// grants reads which roles other than the owner may use the schema and the objects in it.
func (s *side) grants(ctx context.Context) ([]grant, error) {
	rows, err := s.pool.Query(ctx, `SELECT c.relname::text, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
		CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee)::text END, a.privilege_type, a.is_grantable
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) a
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'S') AND a.grantee <> c.relowner
		UNION ALL SELECT '', 'SCHEMA', CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee)::text END, a.privilege_type, a.is_grantable
		FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a WHERE n.nspname = $1 AND a.grantee <> n.nspowner`, s.schema)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []grant
	for rows.Next() {
		var g grant
		if err := rows.Scan(&g.Object, &g.Kind, &g.Role, &g.Privilege, &g.WithGrantOption); err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	return list, rows.Err()
}

// checkSameShape returns an error for tables that differ between the servers.
func checkSameShape(old, made []relation) error {
	for _, n := range made {
		i := slices.IndexFunc(old, func(o relation) bool { return o.Name == n.Name })
		if i < 0 {
			return refuse("the old database has no %s", n.Name)
		}
		if old[i].Shape != n.Shape {
			return refuse("%s has other columns on the old server (%s) than a new one has (%s)", n.Name, old[i].Shape, n.Shape)
		}
	}
	return nil
}
