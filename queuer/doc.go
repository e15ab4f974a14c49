// Package queuer decides which batches leave next. A [Strategy] is a pure function
// over one lane; the [Queuer] goes round the lanes that have something to do, lets
// the store claim what the strategy picks, and hands it to the submitter.
//
// [Serial] sends one batch of a lane at a time. [Parallel] sends all that nothing
// before them conflicts with; how much that gains depends on how narrowly batches
// declare what they touch, which [Lint] reports. A strategy of one's own is held to
// the lane's order by [Choose] whatever it answers, and tested by package queuertest.
package queuer
