package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

const (
	// maxBriefRows is how many rows of a table one statement of a brief survey reads.
	maxBriefRows = 50_000
	// minBriefLanes is the smallest number of lanes to which the rows of one statement may belong.
	// If they belong to fewer lanes, the lanes are long, and to look up each lane costs less than
	// to read all of their rows.
	minBriefLanes = 50
	// maxOtherLanesRows is how many rows of other lanes than those asked for such a statement may
	// read.
	maxOtherLanesRows = 1000
)

// briefSurvey is Survey for a [store.SurveyQuery] with Brief. Other surveys look up each lane in
// each table. brief reads the tables in the order of the lanes, one span of lanes after the other,
// and lets the database count.
func (s *Store) briefSurvey(ctx context.Context, q store.SurveyQuery) (found store.Survey, err error) {
	for first := true; first || len(found.Lanes) < q.Limit; first = false {
		part := q
		part.Limit -= len(found.Lanes)
		var page store.Survey
		var more, long bool
		err := s.driver.Surveying(ctx, opSurvey, func(ctx context.Context, t Tx) (err error) {
			page, more, long, err = s.briefSurveyPart(ctx, t, part)
			return err
		})
		if err == nil && long {
			part.Brief = false
			page, err = s.Survey(ctx, part)
			more = len(page.Lanes) == part.Bounded().Limit
		}
		if err != nil {
			return store.Survey{}, err
		}
		page.Lanes = append(found.Lanes, page.Lanes...)
		if found = page; !more {
			break
		}
		q.Start, q.After = false, found.Lanes[len(found.Lanes)-1].Service
	}
	return found, nil
}

// briefSurveyPart reads lanes at one moment. more reports whether further lanes may follow. long
// reports that briefSurveyPart has read no lane, because the next lanes are long.
func (s *Store) briefSurveyPart(ctx context.Context, t Tx, q store.SurveyQuery) (found store.Survey, more, long bool, err error) {
	if found, err = readClockAndControl(ctx, t); err != nil {
		return found, false, false, err
	}
	in := laneSpan{afterLane: q.After, fromFirst: q.Start}
	counted, err := s.briefCounts(ctx, t, in, q.Limit)
	if err != nil {
		return found, false, false, err
	}
	rows := 0
	for _, c := range counted {
		rows += int(c.N)
	}
	if rows >= maxBriefRows {
		if len(counted) < minBriefLanes {
			return found, true, true, nil
		}
		counted, more = counted[:len(counted)-1], true // the last lane may have more rows
	}
	more = more || len(counted) == q.Limit
	if more {
		in.lastLane, in.hasEnd = batch.ServiceID(counted[len(counted)-1].Service), true
	}
	tried, err := s.briefRows(ctx, t, in)
	if err != nil {
		return found, false, false, err
	}
	if len(tried) > maxBriefRows { // the last of these lanes may have more attempted rows
		cut := tried[len(tried)-1].ServiceID
		tried = tried[:slices.IndexFunc(tried, func(c briefCols) bool { return c.ServiceID == cut })]
		counted = slices.DeleteFunc(counted, func(c briefCount) bool { return c.Service >= cut })
		if more = true; len(tried)+len(counted) == 0 {
			return found, true, true, nil
		}
	}
	lanes := mergeBrief(counted, tried, s.driver.BriefAll)
	if len(lanes) > q.Limit {
		lanes, more = lanes[:q.Limit], true
	}
	if len(lanes) == 0 {
		return found, false, false, nil
	}
	in.lastLane, in.hasEnd = lanes[len(lanes)-1].Service, true
	beside, err := readBriefLaneFacts(ctx, t, in, lanes)
	if err != nil {
		return found, false, false, err
	}
	for _, l := range lanes {
		found.Lanes = append(found.Lanes, beside.laneSurvey(l.Service, l.Rows, min(l.Waiting, q.Cap)))
	}
	return found, more, false, nil
}

// laneSpan is a span of lanes in the order of services: the lanes after one lane, up to and
// including another.
type laneSpan struct {
	afterLane batch.ServiceID
	fromFirst bool // true if the span begins with the first lane
	lastLane  batch.ServiceID
	hasEnd    bool // true if the span ends with to
}

// addConditions adds the conditions that a column of services is in the span.
func (in laneSpan) addConditions(c *conditions, column string) {
	if !in.fromFirst {
		c.add(column+" > ?::text", string(in.afterLane))
	}
	if in.hasEnd {
		c.add(column+" <= ?::text", string(in.lastLane))
	}
}

// briefCount is a row of Queries.BriefCounts: a lane, with the number and the first order key of
// its waiting rows. With BriefAll these are of all its rows, and the first row follows.
type briefCount struct {
	Service  string `db:"lane"`
	N        int64  `db:"n"`
	Oldest   int64  `db:"oldest"`
	firstRow *briefCols
}

// briefFront is a briefCount and the first row of the lane.
type briefFront struct {
	briefCount
	briefCols
}

// briefCols is a row of Queries.BriefRows.
type briefCols struct {
	Seq          int64          `db:"seq"`
	ServiceID    string         `db:"service_id"`
	CreatedAt    int64          `db:"created_at"`
	State        int64          `db:"state"`
	Attempt      int64          `db:"attempt"`
	ClaimExpires int64          `db:"claim_expires"`
	NotBefore    int64          `db:"not_before"`
	SettlesAt    int64          `db:"settles_at"`
	DoubtAttempt int64          `db:"doubt_attempt"`
	ResendUntil  int64          `db:"resend_until"`
	Kind         sql.NullString `db:"submission_error"`
	Message      string         `db:"submission_error_message"`
	Decision     string         `db:"decision"`
}

// isAttempted is [store.Row.Attempted].
func (c *briefCols) isAttempted() bool { return c.Attempt > 0 }

// fillLaneRow writes the columns into r, which is zero before.
func (c *briefCols) fillLaneRow(r *store.LaneRow) {
	r.Key.Service, r.Ref.Row, r.Created = batch.ServiceID(c.ServiceID), c.Seq, FromMicro(c.CreatedAt)
	w := &r.Row
	w.State, w.Attempt, w.DoubtAttempt, w.Decision = batch.State(c.State), int(c.Attempt), int(c.DoubtAttempt), c.Decision
	w.ClaimExpires, w.NotBefore = FromMicro(c.ClaimExpires), FromMicro(c.NotBefore)
	w.SettlesAt, w.ResendUntil = FromMicro(c.SettlesAt), FromMicro(c.ResendUntil)
	if c.Kind.Valid {
		w.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.Kind.String), Message: c.Message}
	}
}

func (s *Store) briefCounts(ctx context.Context, t Tx, in laneSpan, limit int) ([]briefCount, error) {
	var c conditions
	in.addConditions(&c, "w.service_id")
	statement, args := c.statement(s.driver.BriefCounts, s.driver.BriefCountsEnd, int64(maxBriefRows), int64(limit))
	if !s.driver.BriefAll {
		return QueryMany[briefCount](ctx, t, limit, statement, args...)
	}
	var found []briefCount
	err := Each(ctx, t, func(f *briefFront) error {
		row := f.briefCols
		f.firstRow = &row
		found = append(found, f.briefCount)
		return nil
	}, statement, args...)
	return found, err
}

func (s *Store) briefRows(ctx context.Context, t Tx, in laneSpan) ([]briefCols, error) {
	var c conditions
	in.addConditions(&c, "a.service_id")
	statement, args := c.statement(s.driver.BriefRows, " ORDER BY a.service_id, a.created_at LIMIT ?::bigint", int64(maxBriefRows+1))
	return QueryMany[briefCols](ctx, t, maxBriefRows/10, statement, args...)
}

// mergeBrief combines the counts and the attempted rows of lanes, both in the order of services.
// all is true if the counts include the attempted rows.
func mergeBrief(counted []briefCount, tried []briefCols, all bool) []store.LaneSurvey {
	lanes := make([]store.LaneSurvey, 0, max(len(counted), 1))
	rows := make([]store.LaneRow, len(counted)+len(tried)) // the rows of all lanes
	for len(counted) > 0 || len(tried) > 0 {
		var c briefCount
		switch {
		case len(counted) == 0 || len(tried) > 0 && tried[0].ServiceID < counted[0].Service:
			c.Service = tried[0].ServiceID
		default:
			c, counted = counted[0], counted[1:]
		}
		n := 0
		for n < len(tried) && tried[n].ServiceID == c.Service {
			n++
		}
		l := briefLaneSurvey(c, tried[:n], all, rows)
		lanes, tried, rows = append(lanes, l), tried[n:], rows[len(l.Rows):]
	}
	return lanes
}

// briefLaneSurvey combines the count and the attempted rows of a lane. It fills the first elements
// of rows, which are zero before.
func briefLaneSurvey(c briefCount, tried []briefCols, all bool, rows []store.LaneRow) store.LaneSurvey {
	l := store.LaneSurvey{Service: batch.ServiceID(c.Service), Waiting: int(c.N)}
	n := 0
	var front *briefCols // the first waiting row, if the statement has read it
	for i := range tried {
		if r := &tried[i]; r.isAttempted() {
			r.fillLaneRow(&rows[n])
			n++
		} else {
			l.Waiting++
			if front == nil {
				front = r
			}
		}
	}
	if all {
		l.Waiting = max(0, l.Waiting-n)
	}
	if n > 1 { // the statement does not say which of two rows with the same time is first
		slices.SortFunc(rows[:n], func(a, b store.LaneRow) int {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Ref.Row, b.Ref.Row))
		})
	}
	if c.firstRow != nil && !c.firstRow.isAttempted() {
		front = c.firstRow
	}
	if c.N > 0 && l.Waiting > 0 && (front == nil || c.Oldest < front.CreatedAt) {
		first := &rows[n]
		first.Row, first.Created, first.Key.Service, first.Ref.Row = store.NewRow(), FromMicro(c.Oldest), l.Service, -1
		if all { // the first row of the lane was attempted
			first.Created = first.Created.Add(time.Microsecond)
		}
		n++
	} else if front != nil {
		front.fillLaneRow(&rows[n])
		n++
	}
	l.Rows = rows[:n:n]
	return l
}

// readBriefLaneFacts reads the controls and ledgers of lanes of a span. It reads those of the
// whole span, unless the span has many more lanes than these; then it reads those of these lanes
// only.
func readBriefLaneFacts(ctx context.Context, t Tx, in laneSpan, lanes []store.LaneSurvey) (b laneFacts, err error) {
	names := make([]batch.ServiceID, len(lanes))
	for i := range lanes {
		names[i] = lanes[i].Service
	}
	most := len(lanes) + maxOtherLanesRows
	var c conditions
	in.addConditions(&c, "c.service_id")
	statement, args := c.statement(briefControls, " ORDER BY c.service_id LIMIT ?::bigint", int64(most))
	b.controls, err = readControls(ctx, t, statement, args...)
	if err == nil && len(b.controls) == most {
		b.controls, err = readControls(ctx, t, sqlControlsOf, textArray(t, names))
	}
	if err != nil {
		return b, err
	}
	c = conditions{}
	in.addConditions(&c, "s.name")
	statement, args = c.statement(briefServed, " ORDER BY s.name LIMIT ?::bigint", int64(most))
	b.ledgers, err = readLedgers(ctx, t, statement, args...)
	if err == nil && len(b.ledgers) == most {
		b.ledgers, err = readLedgers(ctx, t, sqlServed, textArray(t, names))
	}
	return b, err
}
