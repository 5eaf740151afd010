// Package index is how lists find tasks without reading them. It has a row for each task that waits or has ended, with
// what filters ask for. Rows are packed into segments of up to SegmentRows rows. A segment is cut into blocks, so that
// a list reads a part of it.
//
// Segments do not change. Leaders pack new rows, merge small segments, and leave out rows of deleted tasks. A row can
// be out of date. So a list reads the task that a row names, and drops the row if it does not agree.
//
// The package knows neither Redis nor a clock. Package store/listing keeps segments in Redis.
package index
