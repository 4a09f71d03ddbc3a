// Takes an order and says what it costs. POST: {"items": [{"price": 2.5, "count": 2}]}
// /// fnd
// description = "Adds up an order, or says what is wrong with it"
// labels = { team = "web" }
// [limits]
// timeout = "5s"
// ///
package order

import (
	"encoding/json"
	"math"

	"github.com/kubeless/kubeless/pkg/functions"
)

type item struct {
	Price float64
	Count *float64
}

func Handler(event functions.Event, context functions.Context) (any, error) {
	var order struct{ Items []item }
	if json.Unmarshal([]byte(event.Data), &order) != nil || len(order.Items) == 0 {
		body := map[string]string{"error": "an order has `items`"}
		return functions.Response{Status: 422, Body: body}, nil
	}
	total := 0.0
	for _, item := range order.Items {
		count := 1.0
		if item.Count != nil {
			count = *item.Count
		}
		total += item.Price * count
	}
	context.Log.Info("order", "items", len(order.Items), "total", total)
	return map[string]float64{"total": math.Round(total*100) / 100}, nil
}
