// Package index is how lists find tasks without reading them. It has a compact copy of what a filter asks for: a row
// for each task that waits or has ended, packed into segments of up to SegmentRows rows.
//
// Segments do not change. Leaders pack new rows, merge small segments, and leave out rows of tasks that are gone. A row
// can be out of date, so who lists reads the task that a row names, and drops it if the row does not agree.
//
// The package knows neither Redis nor a clock. Package store/listing keeps segments in Redis.
package index
