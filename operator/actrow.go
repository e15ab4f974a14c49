package operator

import (
	"regexp"

	"github.com/dltbatch/dltbatch/batch"
)

// ActRow is a row of a history as people read it: an act, or several in a row that are parts of
// one bulk action.
type ActRow struct {
	batch.Act // the first of them, with the reason that the person gave
	// N is how many acts the row stands for, and Token names the bulk action ([Bulks.Get]); "" for
	// none.
	N     int    `json:"n"`
	Token string `json:"token,omitzero"`
}

// ActRows makes rows of acts: the parts of a bulk action that stand together are one row. The
// action itself has each batch.
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

// bulkPartPattern finds the token in what bulkMark made.
var bulkPartPattern = regexp.MustCompile(`^bulk ([0-9a-f]{32}): (.*)$`)

// BulkPart reads the reason of an act that was part of a bulk action: the action's token, and the
// reason that the person gave. It is false for an act that was done alone.
func BulkPart(reason string) (token, given string, is bool) {
	found := bulkPartPattern.FindStringSubmatch(reason)
	if found == nil {
		return "", reason, false
	}
	return found[1], found[2], true
}
