package sawtooth

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

// statusJSON is one element of a node's answer (docs/ledgers/sawtooth.md#asking-for-statuses).
// The node omits keys whose value is empty.
type statusJSON struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Invalid []struct {
		ID           string `json:"id"`
		Message      string `json:"message"`
		ExtendedData string `json:"extended_data"` // standard base64
	} `json:"invalid_transactions"`
}

// decodeStatuses reads the answer in any order, matches it by id and returns at most one
// status per id. It returns complete answers from before an error together with the error.
func decodeStatuses(r io.Reader, ids []batch.ID) ([]batch.Status, error) {
	d := &statusDecoder{json: json.NewDecoder(r), open: make(map[batch.ID]struct{}, len(ids))}
	for _, id := range ids {
		d.open[id] = struct{}{}
	}
	err := d.document()
	if err == nil && !d.data {
		err = errors.New("the answer has no data")
	}
	return d.out, errors.Join(err, d.first)
}

type statusDecoder struct {
	json  *json.Decoder
	open  map[batch.ID]struct{} // asked and not answered
	out   []batch.Status
	data  bool  // the answer has a list
	first error // the first error in a single element
}

func (d *statusDecoder) document() error {
	if err := wire.Delim(d.json, '{'); err != nil {
		return err
	}
	for d.json.More() {
		key, err := d.json.Token()
		if err != nil {
			return wire.UnexpectedEOF(err)
		}
		if key == "data" {
			err = d.list()
		} else {
			var skipped json.RawMessage
			err = d.json.Decode(&skipped)
		}
		if err != nil {
			return wire.UnexpectedEOF(err)
		}
	}
	return wire.Delim(d.json, '}')
}

func (d *statusDecoder) list() error {
	d.data = true
	odd, err := wire.List(d.json, d.element)
	d.first = cmp.Or(d.first, odd)
	return err
}

func (d *statusDecoder) element(e statusJSON) {
	id := batch.ID(e.ID)
	if _, asked := d.open[id]; !asked {
		return
	}
	s := batch.Status{ID: id}
	switch e.Status {
	case "COMMITTED":
		s.Reported = batch.ReportedCommitted
	case "INVALID":
		s.Reported = batch.ReportedInvalid
	case "PENDING":
		s.Reported = batch.ReportedPending
	case "UNKNOWN":
		s.Reported = batch.ReportedUnknown
	default:
		d.note(fmt.Errorf("unknown status %s of batch %s", wire.Word(e.Status), e.ID))
		return
	}
	seen := make(map[string]struct{}, len(e.Invalid))
	for _, t := range e.Invalid {
		if _, twice := seen[t.ID]; twice { // executed again (docs/ledgers/sawtooth.md#asking-for-statuses)
			continue
		}
		seen[t.ID] = struct{}{}
		data, err := base64.StdEncoding.DecodeString(t.ExtendedData)
		if err != nil {
			data = nil // the verdict does not depend on the processor's extra data
		}
		s.Receipts = append(s.Receipts, batch.Receipt{
			TransactionID: batch.Excerpt(t.ID, batch.MaxIDLen),
			Message:       batch.Excerpt(t.Message, batch.MaxErrorText),
			Data:          data,
		})
	}
	if s.Reported == batch.ReportedInvalid && len(e.Invalid) > 0 {
		s.Message = batch.Excerpt(e.Invalid[0].Message, maxText)
	}
	delete(d.open, id)
	d.out = append(d.out, s)
}

func (d *statusDecoder) note(err error) {
	if d.first == nil {
		d.first = err
	}
}
