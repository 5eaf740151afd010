package web

// chineseRoutes are the texts of routes.
var chineseRoutes = map[string]string{
	", for which it waits as long as that node lives": "，只要该节点存活就等待它",
	", for which it waits up to 2 s":                  "，最多等待它 2 秒",
	"CPU":                                             "CPU",
	"any node, by chance":                             "随机一个节点",
	"memory":                                          "内存",
	"one node after the other":                        "各节点轮流",
	"one node after the other, by their weights":      "各节点按权重轮流",
	"response time":                                   "响应时间",
	"slots":                                           "槽位",
	"the first node that lives of %s":                 "%s 中第一个存活的节点",
	"the first node with a free slot of %s":           "%s 中第一个有空闲槽位的节点",
	"the most idle node":                              "最空闲的节点",
	"the most idle node, by %s":                       "最空闲的节点，依据 %s",
	"the node of the key %s":                          "键 %s 所属的节点",
	"the node that got its last task longest ago":     "最久没有得到任务的节点",
	"the node with the fewest tasks in about an hour": "约一小时内任务最少的节点",
	"the node on which running and waiting tasks hold the fewest slots": "运行和等待的任务占用槽位最少的节点",
	"the node with the greatest name":                                   "名称最大的节点",
	"the node with the least name":                                      "名称最小的节点",
	"the node with the most free slots":                                 "空闲槽位最多的节点",
}
