throw new Error("thrown");
