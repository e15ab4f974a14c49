package operator

import (
	"regexp"

	"github.com/dltbatch/dltbatch/batch"
)

// ActRow is a row of a history as people read it: one act, or successive acts that belong to one
// bulk action.
type ActRow struct {
	batch.Act // the first act of the row; its reason is the one that the person gave
	// N is how many acts the row stands for. Token names their bulk action ([Bulks.Get]); it is ""
	// if the act was done alone.
	N     int    `json:"n"`
	Token string `json:"token,omitzero"`
}

// ActRows groups acts into rows: successive acts of one bulk action become one row. [Bulks] keeps
// what happened to each batch of the action.
func ActRows(acts []batch.Act) []ActRow {
	var rows []ActRow
	for _, act := range acts {
		row := ActRow{Act: act, N: 1}
		if token, reason, is := BulkPart(act.Reason); is {
			row.Token, row.Reason = token, reason
		}
		if n := len(rows); n > 0 && row.Token != "" && row.Token == rows[n-1].Token && row.Action == rows[n-1].Action {
			rows[n-1].N++
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

// bulkPartPattern matches a reason that begins with bulkReasonPrefix, and finds the token.
var bulkPartPattern = regexp.MustCompile(`^bulk ([0-9a-f]{32}): (.*)$`)

// BulkPart reads the reason of an act. If the act belongs to a bulk action, it returns the
// action's token, the reason that the person gave, and true. For an act that was done alone it
// returns "", the reason and false.
func BulkPart(reason string) (token, given string, ok bool) {
	found := bulkPartPattern.FindStringSubmatch(reason)
	if found == nil {
		return "", reason, false
	}
	return found[1], found[2], true
}
