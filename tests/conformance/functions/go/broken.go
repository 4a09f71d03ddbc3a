package kubeless

func Handler(
