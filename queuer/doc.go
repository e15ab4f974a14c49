// Package queuer decides which batches leave next. A [Strategy] is a pure function
// over one lane; the [Queuer] goes round the lanes that have something to do, lets
// the store claim what the strategy picks, and hands it to the submitter.
package queuer
