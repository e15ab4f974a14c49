// Package queuer decides which batches leave next. A [Strategy] is data with a pure function over
// one lane. The Runner goes round the lanes that may have work, lets the store claim the batches
// that the strategy picks, and posts them.
//
// [Serial] sends one batch of a lane at a time. [Parallel] sends every batch that no earlier
// batch conflicts with; its gain depends on how narrowly batches declare the state they touch.
// [Choose] holds every strategy to the lane's order, even if its answer breaks the order.
// Package queuertest tests your own strategy.
package queuer
